"""Savepoints and the stores that hold them."""

from kappa_monitoring.boards.model import Board, Panel, Query, Row, Variable

_NS = 'namespace=~"$namespace"'
_OF_PIPELINE, _OF_STORE = "{{namespace}}/{{pipeline}}", "{{namespace}}/{{statestore}}"


def _of_store(metric: str) -> str:
    return f"max by (namespace, statestore) ({metric}{{{_NS}}})"


SAVEPOINTS = Board(
    uid="kappa-savepoints",
    title="Kappa / Savepoints",
    description="Age of the savepoints of each pipeline, and contents of the stores.",
    variables=(Variable("namespace", "kappa_pipeline_savepoint_scheduled", "namespace", many=True),),
    rows=(
        Row(
            "Savepoints",
            (
                Panel("Age of the newest savepoint", "Seconds since the newest valid savepoint of each pipeline was taken.", (Query(f"time() - max by (namespace, pipeline) (kappa_pipeline_savepoint_taken_timestamp_seconds{{{_NS}}})", _OF_PIPELINE),), unit="s", limit="savepoints.tooOld.seconds"),
                Panel("Savepoints by state", "Savepoint resources by state.", (Query(f"sum by (state) (max by (namespace, pipeline, state) (kappa_pipeline_savepoints{{{_NS}}}))", "{{state}}"),)),
                Panel("Time since the last failure", "Seconds since a savepoint failed or was found damaged. Empty if none did.", (Query(f"time() - max by (namespace, pipeline) (kappa_pipeline_savepoint_failed_timestamp_seconds{{{_NS}}})", _OF_PIPELINE),), unit="s", kind="value"),
                Panel("Scheduled", "1 if the pipeline has a savepoint schedule.", (Query(f"max by (namespace, pipeline) (kappa_pipeline_savepoint_scheduled{{{_NS}}})", _OF_PIPELINE),), kind="value"),
                Panel("Size of the last savepoint", "Bytes of all files of the last savepoint of the driver.", (Query(f"max by (namespace, pipeline) (kappa_pipeline_savepoint_bytes{{{_NS}}})", _OF_PIPELINE),), unit="bytes"),
                Panel("Time since the last savepoint of the driver", "Seconds since the running driver took its last savepoint.", (Query(f"time() - max by (namespace, pipeline) (kappa_pipeline_savepoint_timestamp_seconds{{{_NS}}})", _OF_PIPELINE),), unit="s"),
            ),
        ),
        Row(
            "Stores",
            (
                Panel("Bytes held", "Bytes of checkpoints and of savepoints, at the last measurement.", (Query(_of_store("kappa_statestore_checkpoint_bytes"), f"{_OF_STORE} checkpoints"), Query(_of_store("kappa_statestore_savepoint_bytes"), f"{_OF_STORE} savepoints")), unit="bytes"),
                Panel("Free space", "Free bytes at the last check, for a PVC only.", (Query(_of_store("kappa_statestore_free_bytes"), _OF_STORE),), unit="bytes"),
                Panel("Objects held", "Number of checkpoints, savepoints and savepoint files.", (Query(_of_store("kappa_statestore_checkpoints"), f"{_OF_STORE} checkpoints"), Query(_of_store("kappa_statestore_savepoints"), f"{_OF_STORE} savepoints"), Query(_of_store("kappa_statestore_savepoint_objects"), f"{_OF_STORE} files"))),
                Panel("Oldest and newest savepoint", "Seconds since the savepoint was written to the store.", (Query(f"time() - {_of_store('kappa_statestore_oldest_savepoint_timestamp_seconds')}", f"{_OF_STORE} oldest"), Query(f"time() - {_of_store('kappa_statestore_newest_savepoint_timestamp_seconds')}", f"{_OF_STORE} newest")), unit="s"),
                Panel("Age of check and measurement", "Seconds since the store was checked and measured: the age of the figures here.", (Query(f"time() - {_of_store('kappa_statestore_check_timestamp_seconds')}", f"{_OF_STORE} check"), Query(f"time() - {_of_store('kappa_statestore_measurement_timestamp_seconds')}", f"{_OF_STORE} measurement")), unit="s", limit="stateStores.checkOld.seconds"),
                Panel("Partial measurement", "1 if a store has more objects than one measurement counts. The figures are too low.", (Query(_of_store("kappa_statestore_measurement_partial"), _OF_STORE),), kind="value"),
            ),
        ),
    ),
)  # fmt: skip
