"""``python -m service``, the same as ``dragoman``; reports missing server dependencies."""

from __future__ import annotations

import sys


def main() -> int:
    try:
        from service import cli
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] in ("models", "service"):
            raise
        print(
            f"dragoman: {missing.name} is not installed; this installation has the client only. "
            "Serving and translating need the extra cpu or gpu: pip install '.[cpu]'",
            file=sys.stderr,
        )
        return 2
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
