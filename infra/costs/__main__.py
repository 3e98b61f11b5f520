"""Print the tables of the README's section "What it costs", and where the prices are from."""

from infra import costs

print(costs.markdown(), costs.sources(), sep="\n\n")
