"""What to do about a reprocessing, from what was observed. It creates no pods: its Pipeline reads its phase and its cut, and acts on them.

Only the Reprocessing moves from phase to phase, and only the Pipeline changes runs. Each records first what the other one acts on.
"""

from kappa_operator.engine.kinds import Step
from kappa_operator.reprocessing.compare import compare
from kappa_operator.reprocessing.ending import (
    end_early,
    hold_reprocessing,
    release_reprocessing,
    report_end,
    report_uncontrolled,
)
from kappa_operator.reprocessing.model import ReprocessingObserved
from kappa_operator.reprocessing.phases import (
    begin,
    catch_up,
    cut_over,
    hold_log,
    prove_log,
    roll_back,
    soak,
    wait_for_cutover,
)
from kappa_operator.reprocessing.quota import limit_replay
from kappa_operator.reprocessing.race import warn_of_overtake
from kappa_operator.reprocessing.requests import refuse_request

REPROCESSING_STEPS: tuple[Step[ReprocessingObserved], ...] = (
    release_reprocessing,
    hold_reprocessing,
    report_uncontrolled,
    refuse_request,
    hold_log,
    limit_replay,
    report_end,
    end_early,
    begin,
    prove_log,
    warn_of_overtake,
    catch_up,
    compare,
    wait_for_cutover,
    cut_over,
    soak,
    roll_back,
)
"""Deletion comes first, then requests that fit no phase, then the ends, then the phase that it is in."""
