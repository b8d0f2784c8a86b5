"""What a case offers, so that commands need not know which one they run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from certify.errors import InputRejected

if TYPE_CHECKING:
    from certify.cases.convergence import Convergence
    from certify.cases.kernel import TracedKernel

    from certify.arithmetic import Format
    from certify.certificate import Report
    from certify.states import Saved

Progress = Callable[[int, int, str], None]
"""Called as progress(done, total, what) while a run goes on."""

#: Variables up to which convergence is tested without being asked for: seconds a state; 32 take a minute.
MOST_UNASKED = 20


@dataclass(frozen=True)
class Options:
    """What to certify.

    Attributes
    ----------
    formats : names of formats; empty means float16, float32 and float64, and then the overall verdict
        rests on the coarsest of them that is enough. Formats that are named must all be certified.
    order : how sums are evaluated.
    radius : Frobenius radius of the ball of the uniform claims; 0 leaves them out.
    update_tol : the error in one update, Frobenius, that is small enough for the user's purpose; None if any is.
    bound : "running", or "adjoint" for claims by adjoint bounds as well.
    splits : how often these cut the ball in two.
    confidence : of probable bounds under stochastic rounding, as text; None for none.
    samples : how many states of the ball to replay beside the proof; a measurement, not a bound.
    methods : how to certify convergence in the fixed stage: some of global, local, interval, face; empty for not at all.
    methods_required : whether the overall verdict also rests on the claims about the stage; if not, states of more than
        MOST_UNASKED variables go without them.
    tol : the distance to the stage's fixed point that is close enough, Frobenius.
    step : "recorded" for the state's step size, "new" for one near 2 / (mu + L).
    replay : at most how many updates to run until a saved state enters a certified ball.
    further : how many updates to replay from the saved state beside a proved count; a measurement, not a bound.
    """

    formats: tuple[str, ...] = ()
    order: str = "serial"
    radius: float = 0.01
    update_tol: float | None = None
    bound: str = "running"
    splits: int = 0
    confidence: str | None = None
    samples: int = 4
    methods: tuple[str, ...] = ()
    methods_required: bool = False
    tol: float = 1e-6
    step: str = "recorded"
    replay: int = 0
    further: int = 0


class Case(ABC):
    """A family of kernels with their saved states: how to certify them, and real states to show it with.

    What else commands ask for, a case may have: a solver, repeated updates, one kernel of its own.
    """

    name: str
    title: str
    #: What the demo certifies.
    demo_options = Options()

    @abstractmethod
    def certify(self, saved: Saved, options: Options, progress: Progress) -> Report:
        """All claims about the states of a file. Raises InputRejected if they are no states of this case."""

    @abstractmethod
    def demo(self, progress: Progress) -> tuple[Saved, str]:
        """Real states to show the case with, and one sentence that says what they are."""

    def next_steps(self, states: str) -> Sequence[str]:
        """Commands worth trying after the demo, which saved its states in the file of that name, quoted."""
        return ()

    def solve(self, data: Any, names: Sequence[str], options: dict[str, Any], progress: Progress) -> tuple[Saved, str]:
        """Run the case's own solver on a data matrix (m, p) and capture states; a sentence says how it went."""
        raise self._lacks("a solver")

    def states(self, saved: Saved) -> int:
        """How many states of this case a file holds. Raises InputRejected if they are none."""
        raise self._lacks("repeated updates of its states")

    def convergence(
        self, saved: Saved, state: int, format: Format, options: Options, further: int, progress: Progress
    ) -> Convergence:
        """What is proved about repeated updates of one state in a format, with up to `further` replayed beside it.

        Raises
        ------
        InputRejected : the file holds no such state, or the case has no repeated updates.
        """
        raise self._lacks("repeated updates of its states")

    def kernel(self, saved: Saved, state: int, order: str) -> tuple[TracedKernel, str, str]:
        """The kernel of one state as a user's kernel, the input that moves and the output that a plain tolerance is about.

        Raises
        ------
        InputRejected : the file holds no states of this case, or the case has several kernels.
        """
        raise self._lacks("one kernel to tune")

    def _lacks(self, what: str) -> InputRejected:
        return InputRejected(f"the case {self.name} has not {what}", "use certify run, or another --case")
