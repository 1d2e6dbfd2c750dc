"""``python -m benchmarks [NAME ...] [OPTIONS]``: print the figures that README and docs state; without a name, all.

Options are those of the benchmark that is named: ``python -m benchmarks batch --photos 100``.
"""

import importlib
import inspect
import sys
from pathlib import Path


def benchmarks() -> list[str]:
    """The names of all benchmarks."""
    here = Path(__file__).parent
    names = sorted(path.stem for path in here.glob("*.py") if not path.stem.startswith("_"))
    return [name for name in names if "def main(" in (here / f"{name}.py").read_text()]


def main() -> None:
    known = benchmarks()
    given = sys.argv[1:]
    first = next((place for place, word in enumerate(given) if word.startswith("-")), len(given))
    names, options = given[:first], given[first:]
    if options and len(names) != 1:
        sys.exit(f"options are for one benchmark: python -m benchmarks NAME {' '.join(options)}")
    codes = []
    for name in names or known:
        if name not in known:
            sys.exit(f"unknown benchmark {name!r}; there are {', '.join(known)}")
        print(f"\n== {name} ==", flush=True)
        module = importlib.import_module(f"benchmarks.{name}")
        if options and not hasattr(module, "argparse"):  # it would run, and take minutes
            print(module.__doc__)
            sys.exit(0 if {"-h", "--help"} & set(options) else f"{name} takes no options, got {' '.join(options)}")
        run = module.main
        sys.argv = [f"benchmarks.{name}", *options]
        codes.append(run(options) if inspect.signature(run).parameters else run())
    sys.exit(max(code or 0 for code in codes))


if __name__ == "__main__":
    main()
