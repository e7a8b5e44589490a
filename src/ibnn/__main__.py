"""The `ibnn` command: the laboratory's, if it is installed."""

import sys


def main() -> None:
    try:
        from ibnn.lab.cli import main as run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "ibnn":
            raise
        print(
            f"ibnn: the command needs the laboratory ({error.name} is missing); "
            "install it with: pip install 'ibnn[lab]'",
            file=sys.stderr,
        )
        raise SystemExit(2) from None
    run()


if __name__ == "__main__":
    main()
