"""``python -m benchmarks [NAME ...]``: print the figures that README and docs state; without a name, all of them."""

import importlib
import sys
from pathlib import Path


def main() -> None:
    here = Path(__file__).parent
    known = sorted(path.stem for path in here.glob("*.py") if not path.stem.startswith("_"))
    known = [name for name in known if "def main(" in (here / f"{name}.py").read_text()]
    wanted = sys.argv[1:] or known
    for name in wanted:
        if name not in known:
            sys.exit(f"unknown benchmark {name!r}; there are {', '.join(known)}")
        print(f"\n== {name} ==", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
