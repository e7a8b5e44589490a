"""What the implicit bias costs on this GPU: one table to send back.

    python -m benchmarks.gpu                 # the first GPU there is
    python -m benchmarks.gpu --device cuda:1 --rounds 50

Without a GPU, `TRITON_INTERPRET=1 python -m benchmarks.gpu --device cpu --tiny` shows that it runs,
and nothing about speed. `ibnn.lab.bench.gpu` says what the columns are.
"""

import argparse

from ibnn.lab.bench.gpu import PROBLEMS, TINY, lines
from ibnn.lab.training import DeviceError, choose_device


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, cpu, ...")
    parser.add_argument("--rounds", type=int, default=20, help="measurements of each layer")
    parser.add_argument("--tiny", action="store_true", help="two very small layers")
    chosen = parser.parse_args(arguments)
    try:
        device = choose_device(chosen.device)
    except DeviceError as error:
        raise SystemExit(f"{error}; --device cpu --tiny only shows that it runs") from None
    for line in lines(device, TINY if chosen.tiny else PROBLEMS, chosen.rounds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
