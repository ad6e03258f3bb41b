"""What is made of the figures of a run."""

from tests.bench.__main__ import merged
from tests.bench.costs import of_others, table
from tests.bench.records import Record, Run


def record(system: str, repetition: int = 0, problem: str = "", **times: float) -> Record:
    return Record("create 512", system, repetition, 512, times=times, problem=problem)


def shown(*records: Record) -> list[str]:
    return [
        line for line in table(Run({}, list(records))).splitlines()[2:] if "CPU" not in line and "write" not in line
    ]


def test_times_are_medians_with_the_median_of_their_ratios_to_the_ceiling() -> None:
    runs = [record("ceiling", turn, exist=base) for turn, base in enumerate((2.0, 4.0, 8.0))]
    runs += [record("slipway", turn, exist=time) for turn, time in enumerate((3.0, 4.0, 9.6))]
    assert shown(*runs)[0] == "| create 512 pods | s until all exist | 4.00 | 4.00 (1.20) | – | – |"


def test_short_times_have_a_digit_more() -> None:
    assert "| 0.042 |" in shown(record("slipway", exist=0.042))[0]


def test_what_kept_a_figure_from_being_there_is_said_once_below_the_table() -> None:
    why = "0 of 512 pods were made within 120 s"
    lines = shown(record("slipway", exist=1.0), record("jobset", problem=why), record("kuberay", problem=why))
    assert lines[0].endswith("| – ¹ | – ¹ |")
    assert lines[-1] == f"¹ {why}."


def test_what_did_not_come_in_time_counts_as_longer_than_all_that_did() -> None:
    why = "0 of 512 pods were made within 120 s"
    lines = shown(
        *(record("jobset", turn, exist=time) for turn, time in enumerate((1.0, 3.0))), record("jobset", 2, why)
    )
    assert lines[0].endswith("| 3.00 ¹ | – |")
    assert lines[-1].startswith(f"¹ 1 of 3 took longer: {why}.")
    lines = shown(record("jobset", exist=1.0), *(record("jobset", turn, why) for turn in (1, 2)))
    assert lines[0].endswith("| – ¹ | – |")


def test_figures_of_an_earlier_machine_are_marked() -> None:
    planned = Record("plan 4096", "slipway", 0, 1, times={"running": 0.008})
    found = merged(
        [
            Run({"processor": "old"}, [record("slipway", exist=2.0), planned]),
            Run({"processor": "new"}, [record("slipway", exist=1.0)]),
        ]
    )
    assert "| plan a job of 4,096 hosts ˣ |" in table(found)
    assert "| create 512 pods |" in table(found)
    assert [one.workload for one in of_others(found)] == ["plan 4096"]


def test_of_a_workload_in_two_parts_the_later_is_taken_whole() -> None:
    early = Run(
        {"cores": 2}, [record("ceiling", exist=1.0), record("slipway", exist=2.0), Record("plan 4096", "slipway", 0, 1)]
    )
    late = Run({"cores": 16}, [record("slipway", exist=1.0)])
    found = merged([early, late])
    assert found.machine == {"cores": 16}
    assert [(one.workload, one.system, one.times) for one in found.records] == [
        ("plan 4096", "slipway", {}),
        ("create 512", "slipway", {"exist": 1.0}),
    ]
