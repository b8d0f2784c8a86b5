"""The case: of every system that a state holds its claims, and its kernels in every format."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from certify.cases.case import Case, Options, Progress
from certify.cases.kernel import trace_kernel
from certify.cases.kernels import CaseKernel, case_report, kernel_claims

from certify.arithmetic import Format, format_named
from certify.arithmetic.directed import relaxed_up
from certify.certificate import Claim, Report
from certify.rounding import point, running
from certify.states import Saved

from . import demo, em, gaussian, layers, linkage, meta
from .attention import anchor_claims, attention_claims
from .classes import lda_claims, rule_claims
from .convex import convex_claims
from .floors import floor_claims, radius_of_ball
from .inputs import Instance, controls, instances
from .kernels import KERNELS

#: Formats that are certified if none is named.
FORMATS = ("float16", "bfloat16", "float32", "float64")
#: Claims that are exact: no format and no rounding enters.
EXACT: dict[str, Callable[[Instance], list[Claim]]] = {
    "mean": gaussian.mean_claims,
    "gaussian": gaussian.gaussian_claims,
    "convex": convex_claims,
    "attention": attention_claims,
    "anchor": anchor_claims,
    "meta": meta.meta_claims,
    "em": em.soft_claims,
    "hard": em.hard_claims,
    "lda": lda_claims,
    "rule": rule_claims,
}
#: Iterations, whose kernel is certified on a ball.
ITERATED = ("anchor", "convex")


class MetaModels(Case):
    """See `certify.cases.case.Case`."""

    name = "meta_models"
    title = "attention as belief propagation, depth as EM, and layers whose weights depend on their input"
    demo_options = Options(formats=(), order="any-order")

    def certify(self, saved: Saved, options: Options, progress: Progress) -> Report:
        """The claims of every system of the state, in the order of `inputs.SYSTEMS`.

        The overall verdict rests on all exact claims, and on those of the formats that are named, or of float64 if none is.

        Raises
        ------
        InputRejected : a tensor or control that belongs to no system, a missing part, or a shape that does not fit.
        """
        found = instances(saved)
        formats = [format_named(name) for name in options.formats or FORMATS]
        claims: list[Claim] = []
        kernels: list[CaseKernel] = []
        for done, instance in enumerate(found):
            progress(done, len(found), instance.name)
            # first, as it refuses what no kernel is to see
            claims += EXACT[instance.system](instance) if instance.system in EXACT else []
            own = kernels_of(instance, options.order)
            rounding = {
                format.name: [claim for kernel in own for claim in _kernel(instance, kernel, format, options)]
                for format in formats
            }
            kernels += own
            claims += system_claims(instance, formats, rounding, own)
            claims += [claim for several in rounding.values() for claim in several]
        claims += _accuracies(found, claims)
        progress(len(found), len(found), "")
        required = [claim.id for claim in claims if _counts(claim, options.formats or ("float64",))]
        return case_report("meta_models", saved, claims, kernels=kernels, controls=controls(saved), required=required)

    def demo(self, progress: Progress) -> tuple[Saved, str]:
        """The inputs X1-X19, and two trained layers."""
        return (
            demo.state(),
            "The inputs X1-X19 of docs/papers.md, and two layers trained on eight pairs of classes",
        )

    def next_steps(self, states: str) -> list[str]:
        """What to try."""
        return ["python -m certify.cases.meta_models.train -o trained.safetensors   # needs torch, one minute"]


def kernels_of(instance: Instance, order: str) -> list[CaseKernel]:
    """The kernels of a system, traced at its tensors; none where a tensor is an integer over a denominator."""
    found: list[CaseKernel] = []
    if instance.system == "mean" and (instance.has("mask") or instance.tensors["H"].ndim > 1):
        return found  # the kernel is of scalars, all of them kept
    for suffix, function, names in KERNELS.get(instance.system, ()):
        parts = set(names.values())
        if not all(instance.has(part) and instance.is_dyadic(part) for part in parts):
            continue
        fixed: dict[str, Any] = {}
        if instance.system == "anchor":
            fixed = {part: float(instance.number(part)) for part in ("weight", "beta")}
            if any(instance.number(part) != value for part, value in fixed.items()):
                continue  # the program would have other constants
        inputs = {name: np.asarray(instance.tensors[part], dtype=np.float64) for name, part in names.items()}
        traced = trace_kernel(partial(function, **fixed), inputs, order=order, name=instance.name + suffix)
        tensors = {name: f"{instance.name}_{part}" for name, part in names.items()}
        found.append(CaseKernel(instance.name + suffix, traced, tensors))
    return found


def system_claims(
    instance: Instance, formats: list[Format], rounding: dict[str, list[Claim]], kernels: list[CaseKernel]
) -> list[Claim]:
    """The claims of one system that depend on formats; `rounding` holds those of its kernel by the name of the format."""
    place = "ball" if instance.system in ITERATED else "point"
    sources = {
        name: claim
        for name, several in rounding.items()
        for claim in several
        if claim.kind == "rounding" and claim.parameters["method"] == "running" and claim.id.split("/")[3] == place
    }
    if instance.system == "moe":
        return meta.moe_claims(instance, formats)
    if instance.system in layers.GATES:
        return layers.layer_claims(instance, sources, output_errors(kernels, formats, "y"))
    if instance.system == "linkage":
        return linkage.linkage_claims(instance, sources, output_errors(kernels, formats, "S"))
    return floor_claims(instance, sources) if instance.system in ITERATED else []


def output_errors(kernels: list[CaseKernel], formats: list[Format], output: str) -> dict[str, list[float]]:
    """The running error bound of every entry of an output of the only kernel, relaxed, by the name of the format."""
    found = {}
    for kernel in kernels:
        for format in formats:
            bounds = running(kernel.traced.graph, format, point(kernel.traced.inputs), libm=kernel.libm)
            if bounds.first_overflow() is None:
                found[format.name] = [relaxed_up(float(e)) for e in bounds.error_of(output).ravel()]
    return found


def _kernel(instance: Instance, kernel: CaseKernel, format: Format, options: Options) -> list[Claim]:
    """The rounding and range claims of a kernel; majorant ones only where their rules apply."""
    radius = radius_of_ball(instance) if instance.system in ITERATED else 0.0
    claims = kernel_claims(kernel, format, options, center="z", radius=radius)
    return [claim for claim in claims if claim.parameters.get("method") != "majorant" or claim.bounds]


def _accuracies(found: list[Instance], claims: list[Claim]) -> list[Claim]:
    """Of pairs softmax-LABEL and linear-LABEL with the same labelled points: the mixture against the linear layer."""
    by_id = {claim.id: claim for claim in claims}
    by_name = {instance.name: instance for instance in found}
    order = []
    for instance in found:
        other = by_name.get(instance.name.replace("softmax", "linear"))
        if instance.system == "softmax" and other is not None:
            shares = [by_id.get(f"expectation/accuracy/{x.name}") for x in (instance, other)]
            if shares[0] is not None and shares[1] is not None:
                order += layers.accuracy_order(instance, other, shares[0], shares[1])
    return order


def _counts(claim: Claim, formats: tuple[str, ...]) -> bool:
    if claim.kind == "counterexample" or claim.parameters.get("method", "running") != "running":
        return False
    format = claim.parameters.get("format")
    return format is None or format in formats


CASE = MetaModels()
