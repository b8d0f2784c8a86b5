"""The kernels of a case: rounding and range claims about them, and the report that names their programs.

A case that is array code needs no more than this to be certified in every format and order: its kernels are traced like a
user's, their programs go into files beside the report, and the checker proves the claims by its general rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from certify.cases.case import Options
from certify.cases.claims import FOR_COMPARISON, Subject, Wording
from certify.cases.controls import control
from certify.cases.kernel import TracedKernel
from certify.cases.kernel.places import places_of
from certify.cases.kernel.report import graph_file

from certify.arithmetic import Format
from certify.arithmetic.libm import Libm
from certify.certificate import Claim, Report, producer
from certify.states import Saved, digest


@dataclass(frozen=True)
class CaseKernel:
    """A kernel of a case at a saved state.

    Attributes
    ----------
    name : what claims call it: small letters, digits and hyphens.
    traced : the kernel, with an order of sums.
    tensors : for each of its inputs the tensor of the state with exactly its values and shape.
    libm : how accurate exp, log, tanh and sigmoid are assumed to be; None: what is published of NumPy.

    Raises
    ------
    ValueError : an input of the kernel has no tensor.
    """

    name: str
    traced: TracedKernel
    tensors: Mapping[str, str]
    libm: str | Libm | None = None

    def __post_init__(self) -> None:
        if set(self.tensors) != set(self.traced.inputs):
            raise ValueError(f"kernel {self.name}: its inputs are {', '.join(self.traced.inputs)}")


def kernel_claims(
    kernel: CaseKernel, format: Format, options: Options, *, center: str | None = None, radius: float = 0.0
) -> list[Claim]:
    """Rounding claims by running and majorant bounds (and adjoint ones if asked for), and range claims, in one format.

    At the state, and with a radius also for every value of the input `center` within that Frobenius distance.

    Raises
    ------
    InputRejected : the format cannot hold a power of two that the kernel scales by; or as `TracedKernel.region`.
    """
    traced = kernel.traced
    moving, places = places_of(traced, center if radius else None, radius, options.samples)
    assumption = f"the graph file is the kernel {kernel.name} of the case: the checker does not see its source"
    subject = Subject(
        traced.graph,
        traced.inputs,
        _wording(kernel.name, moving),
        {"kernel": kernel.name},
        f"/kernel={kernel.name}",
        (assumption,),
    )
    return [
        claim
        for place in places
        for claim in place.claims(subject, format, kernel.libm, bound=options.bound, splits=options.splits)
    ]


def case_report(
    case: str,
    saved: Saved,
    claims: Sequence[Claim],
    *,
    kernels: Iterable[CaseKernel] = (),
    controls: Iterable[str] = (),
    required: Sequence[str] | None = None,
) -> Report:
    """The report of a case, with the programs of its kernels in files beside it.

    Parameters
    ----------
    case : its name.
    saved : the state file's contents; all its tensors belong to the subject.
    claims : in the order to show.
    kernels : those that the claims are about.
    controls : the metadata that the claims depend on, each an exact number string such as 3/5.
    required : the ids that the verdict rests on. None: of all claims, but majorant and adjoint ones and published
        statements that were tested (kind counterexample), which stand beside.

    Raises
    ------
    InputRejected : a control is missing or no exact number.
    """
    kernels, controls = list(kernels), list(controls)
    for name in controls:
        control(saved, name)
    files = {kernel.name: graph_file(kernel.traced.graph) for kernel in kernels}
    subject = {
        "case": case,
        "tensors": {name: digest(array) for name, array in sorted(saved.tensors.items())},
        "controls": {name: saved.metadata[name] for name in controls},
        "kernels": {
            kernel.name: {"graph": files[kernel.name][0], "inputs": dict(kernel.tensors)} for kernel in kernels
        },
    }
    if required is None:
        required = [claim.id for claim in claims if _counts(claim)]
    beside = {reference["file"]: data for reference, data in files.values()}
    return Report(producer(), subject, claims, required, beside)


def _counts(claim: Claim) -> bool:
    return claim.kind != "counterexample" and claim.parameters.get("method") not in FOR_COMPARISON


def _wording(name: str, center: str | None) -> Wording:
    return Wording(
        point="At the state",
        ball=f"For every {center} within Frobenius distance {{radius}} of that of the state",
        rounding=f"the kernel {name} in {{format}}, inputs converted first, returns each output X within eps_X "
        "(Frobenius norm) of the exact kernel of those inputs.",
        range=f"no operation of the kernel {name} in {{format}} overflows, partial sums included.",
    )
