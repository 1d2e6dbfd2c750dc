"""How the gallery runs the examples: in their quick mode."""


def quick(gallery_conf, script_vars):
    """The command-line arguments of each example."""
    return ["--quick"]
