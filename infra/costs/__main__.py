"""Print the tables of README.md, and where the prices are from."""

from infra import costs

print(costs.markdown(), costs.sources(), sep="\n\n")
