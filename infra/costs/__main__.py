"""`python -m infra.costs`: prints the tables of README.md, and where the prices are from."""

import argparse

from infra import costs

if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m infra.costs",
        description="Print what the service costs, as the tables of infra/costs/README.md, and the sources of the "
        "prices. It needs no AWS account: the prices and the counted units are in this folder.",
    ).parse_args()
    print(costs.markdown(), costs.sources(), sep="\n\n")
