"""What `kappa plan` prints for a plan."""

from kappa_operator.cli.plan import summarize
from kappa_operator.engine.keys import Key
from kappa_operator.pipeline.decide import decide_pipeline
from unit.control.pipelines import NOW, observed, pipeline, pod, running, started

KEY = Key("Pipeline", "flights", "delays")


def test_a_new_pipeline_shows_what_is_made_where_it_leads_and_what_was_sized() -> None:
    lines = list(summarize(KEY, decide_pipeline(observed(pipeline()), NOW)).describe())
    assert lines[0] == "Pipeline flights/delays"
    assert "  + create Pod flights/delays-driver-1" in lines
    assert "  = Starting · DriverStarting · creating driver delays-driver-1" in lines
    assert any(line.startswith("  · state partitions: 1") for line in lines)


def test_a_changed_pipeline_shows_that_its_driver_stops_first() -> None:
    resource = started({"trigger": {"maxRecords": 10}})
    lines = list(
        summarize(KEY, decide_pipeline(observed(resource, pod(revision="delays-old")), NOW)).describe()
    )
    assert lines[1:] == [
        "  + record in status: Pending",
        "  = Pending · StoppingPrevious · a new revision waits: driver delays-driver-1 ends its batch",
    ]


def test_an_unchanged_pipeline_has_nothing_to_do() -> None:
    lines = list(
        summarize(KEY, decide_pipeline(observed(started(), pod(), progress=running()), NOW)).describe()
    )
    assert lines[1] == "  (nothing to do)"
