"""What it costs: the arithmetic, by examples worked out by hand, and that its page shows what is computed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from infra import costs, topology
from infra.costs import Price, Work

PAGE = Path(__file__).parents[2] / "infra/costs/README.md"
KNOWN = re.compile(r"20\d\d-\d\d(-\d\d)?(, an undated copy|, not read)?")


@pytest.mark.parametrize("price", [*costs.PRICES.values(), *costs.BY_USE.values()], ids=lambda price: price.unit)
def test_every_price_has_a_unit_a_source_and_a_date(price: Price) -> None:
    assert price.unit
    assert "found" not in price.source
    assert KNOWN.fullmatch(price.known)
    assert price.per > 0
    assert price.dollars is None or price.dollars >= 0


def test_what_is_computed_with_has_a_price() -> None:
    assert None not in [price.dollars for price in costs.PRICES.values()]


def test_a_second_of_waiting_is_half_a_gb_second() -> None:
    assert costs.gb_seconds(Work("", waits=1_000)) == 0.5


def test_less_than_a_whole_core_makes_code_slower() -> None:
    # 5 ms on a whole core are 17.275 ms at 512 of 1769 MB; four calls of AWS are 20 ms.
    work = Work("", runs={"fan_out": 1}, calls=4)
    assert costs.gb_seconds(work) == pytest.approx(0.037275 / 2, rel=1e-4)


def test_work_is_priced_by_column() -> None:
    work = Work(
        "", requests=2, runs={"fan_out": 1}, calls=4, writes=16, reads=8, fair=3, fifo=1, transitions=3, puts=2,
        logged=8_000, sent_out=100_000,
    )  # fmt: skip
    assert {column: amount * 1_000_000 for column, amount in costs.cost(work).items()} == {
        "API Gateway": pytest.approx(7),
        # An invocation at 0.20, and 0.0186377 GB-seconds at 13.3334.
        "Lambda": pytest.approx(0.2 + 0.24850, abs=1e-4),
        "DynamoDB": pytest.approx(10 + 1),
        "SQS": pytest.approx(1.5 + 0.5),
        "Step Functions": pytest.approx(75),
        # 8,000 bytes of our own, 330 of Lambda's, 2 times 360 of the gateway's, 3 times 1,300 of the machine's.
        "logs": pytest.approx(12_950 * 0.0005),
        "other": pytest.approx(10 + 9),
    }


def test_work_that_takes_nothing_costs_nothing() -> None:
    assert set(costs.cost(Work("")).values()) == {0}


def test_a_month_without_traffic_is_paid_for_polling_sweeping_alarms_and_keys() -> None:
    polling, sweeping, canary, alarms, dashboard, key, firewall = costs.idle().values()
    # Five long polls of 20 seconds are 15 a minute, 648,000 a month for each of eight queues and two FIFO queues.
    assert polling == pytest.approx(8 * 0.648 * 0.40 + 2 * 0.648 * 0.50)
    # A run each five minutes.
    assert canary == pytest.approx(8_640 * sum(costs.cost(costs.CANARY).values()))
    # 43,200 runs: 8.5 read units and 330 bytes of log each, and 0.1779 GB-seconds (18 ms of code, 85 ms of calls).
    assert sweeping == pytest.approx(0.0432 * (0.20 + 8.5 * 0.125 + 0.165 + 0.1779 * 13.3334), rel=1e-2)
    assert alarms == pytest.approx(costs.ALARM_METRICS * 0.10)
    assert (dashboard, key, firewall) == (3, 3, 9)


def test_the_functions_have_the_memory_that_is_computed_with() -> None:
    memory = {function.name: function.memory for function in topology.FUNCTIONS}
    assert memory.pop("sweep") == costs.WHOLE_CORE_MB, "its speed is limited by CPU time"
    assert {*memory.values()} == {costs.MEMORY_MB}
    assert {*costs.CPU_MS} <= {function.name for function in topology.FUNCTIONS}


def test_the_examples_columns_add_up() -> None:
    _, _, month, _ = costs.markdown().split("\n\n")
    rows = [[cell.strip("* ") for cell in line.split("|")[1:-1]] for line in month.splitlines()]
    _, _, *things, idle, together = rows
    for column in range(1, len(costs.COLUMNS) + 2):
        parts = [float(row[column].replace(",", "") or 0) for row in (*things, idle)]
        assert float(together[column].replace(",", "")) == pytest.approx(sum(parts), abs=0.06)


def test_the_page_says_what_a_replica_of_the_table_costs_in_the_example() -> None:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"`replica_region` adds ${costs.replica():,.0f} for its writes" in text


def test_the_page_shows_what_is_computed() -> None:
    _, heading, rest = PAGE.read_text(encoding="utf-8").partition("\n## What it costs\n")
    assert heading, f"{PAGE} has no section What it costs"
    section = rest.partition("\n## ")[0]
    for table in costs.markdown().split("\n\n"):
        assert table in section, "python -m infra.costs prints what is to stand there"


def test_the_help_says_what_is_printed_and_from_what() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "infra.costs", "--help"], cwd=Path(__file__).parents[2], capture_output=True, text=True
    )
    told = " ".join(run.stdout.split())
    assert run.returncode == 0, run.stderr
    assert "Print what the service costs" in told
    assert "It needs no AWS account" in told
