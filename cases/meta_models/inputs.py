"""What a saved state holds: the parts of each system, exactly.

A tensor or control is named `SYSTEM_PART` or, where a system occurs several times, `SYSTEM-LABEL_PART`: `moe_W`,
`gaussian-chain_J`. The values of a float tensor are what they are; an integer tensor NAME may have a control
NAME_denominator that divides it, so that every rational array can be saved exactly.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod

import numpy as np
from certify.cases.controls import control
from numpy.typing import NDArray

from certify.errors import InputRejected
from certify.states import Saved, quoted

#: Of every system its tensors with a letter an axis, those it may go without in brackets, and then its controls. Equal letters
#: are equal lengths; `H:n*` may have further axes.
SYSTEMS: dict[str, tuple[str, str]] = {
    "mean": ("H:n* m:n* [mask:n]", ""),
    "gaussian": ("J:nn h:n", "digits"),
    "convex": ("d:n e:n c:nn", "digits"),
    "attention": ("z:nd Wq:dd Wk:dd Wv:dd", ""),
    "anchor": ("e:n digits:k", "weight beta bound"),
    "moe": ("W:kod R:kd z:d B:ko", "scale"),
    "linear": ("x:nd W:od B:o [y:n]", ""),
    "identity": ("x:nd W:dod B:do [y:n]", ""),
    "swish": ("x:nd W:dod B:do [y:n]", ""),
    "pswish": ("x:nd W:dod B:do V:dd [y:n]", ""),
    "swiglu": ("x:nd W:kod B:ko V:kd U:kd [y:n]", ""),
    "softmax": ("x:nd W:kod B:ko R:kd [y:n]", ""),
    "meta": ("Theta:odd* z:d", ""),
    "em": ("x:n", "share low high steps"),
    "hard": ("x:n", "low high"),
    "lda": ("Sigma:dd m0:d delta:d x:nd", ""),
    "rule": ("m0:M2 m1:M2", "a b slack"),
    "linkage": ("z:nd", ""),
    "lstm": ("x:d h:n c:n W:ld U:ln b:l", ""),
    "ssm": ("x:d h:n A:n B:nd C:nd w:d", ""),
}
_NAME = re.compile(
    r"(?P<instance>(?P<system>[a-z]+)(?:-[a-z0-9]+(?:-[a-z0-9]+)*)?)_(?P<part>[A-Za-z0-9]+)(?P<denominator>_denominator)?"
)
_REMEDY = "name tensors and controls SYSTEM_PART or SYSTEM-LABEL_PART, as the README of the case lists them"
#: Elements of a tensor that is read exactly.
MOST = 200_000


@dataclass(frozen=True)
class Instance:
    """One system of a state.

    Attributes
    ----------
    name : what ids and statements call it, such as `gaussian-chain`.
    system : one of SYSTEMS.
    tensors : its arrays as saved, by part.
    numbers : its controls by part, denominators included.
    """

    name: str
    system: str
    tensors: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    numbers: Mapping[str, Fraction] = field(default_factory=dict)

    def has(self, part: str) -> bool:
        """Whether it has this tensor."""
        return part in self.tensors

    def is_dyadic(self, *parts: str) -> bool:
        """Whether the tensors are the values themselves, so that a kernel can take them."""
        return all(f"{part}_denominator" not in self.numbers for part in parts)

    def array(self, part: str) -> NDArray[np.object_]:
        """A tensor as Fractions, in its shape."""
        saved = self.tensors[part]
        under = self.numbers.get(f"{part}_denominator", Fraction(1))
        exact = np.empty(saved.shape, dtype=object)
        for index in np.ndindex(saved.shape):
            exact[index] = Fraction(saved[index].item()) / under
        return exact

    def number(self, part: str) -> Fraction:
        """A control."""
        return self.numbers[part]

    def count(self, part: str, most: int) -> int:
        """A control that is a whole number from 1 to `most`. Raises InputRejected."""
        value = self.numbers[part]
        if value.denominator != 1 or not 1 <= value <= most:
            raise InputRejected(f"{self.name}_{part} is {value}", f"give a whole number from 1 to {most}")
        return int(value)


def instances(saved: Saved) -> list[Instance]:
    """The systems of a state, in the order of SYSTEMS and then of their names.

    Raises
    ------
    InputRejected : a name that belongs to no system, a part that is missing, or a control that is no exact number.
    """
    tensors: dict[str, dict[str, NDArray[np.float64]]] = {}
    numbers: dict[str, dict[str, Fraction]] = {}
    for name, array in saved.tensors.items():
        match = _matched(name, 0)
        if match["denominator"]:
            raise InputRejected(f"{quoted(name)} is a tensor", "give denominators as controls")
        if array.size > MOST:
            raise InputRejected(f"tensor {quoted(name)} has {array.size} elements", f"give at most {MOST}")
        tensors.setdefault(match["instance"], {})[match["part"]] = array
    for name in controls(saved):
        match = _matched(name, 1)
        numbers.setdefault(match["instance"], {})[match["part"] + (match["denominator"] or "")] = control(saved, name)
    found = []
    for name in sorted(set(tensors) | set(numbers), key=lambda name: (list(SYSTEMS).index(name.split("-")[0]), name)):
        instance = Instance(name, name.split("-")[0], tensors.get(name, {}), numbers.get(name, {}))
        _require_whole(instance)
        found.append(instance)
    if not found:
        raise InputRejected("the state holds none of the systems of meta_models", _REMEDY)
    return found


def controls(saved: Saved) -> list[str]:
    """The names of the metadata that are controls of systems; the rest is not read."""
    return sorted(name for name in saved.metadata if (match := _NAME.fullmatch(name)) and match["system"] in SYSTEMS)


def parts_of(system: str) -> tuple[list[str], list[str], list[str]]:
    """The tensors that a system needs, those it may have, and its controls."""
    words, controls = SYSTEMS[system]
    names = [word.split(":")[0] for word in words.split()]
    return [x for x in names if x[0] != "["], [x[1:] for x in names if x[0] == "["], controls.split()


def sizes(instance: Instance) -> dict[str, int]:
    """The lengths behind the letters of SYSTEMS. Raises InputRejected, naming the part and the shape it must have."""
    found: dict[str, int] = {}
    for word in SYSTEMS[instance.system][0].split():
        part, axes = word.strip("[]").split(":")
        if part not in instance.tensors:
            continue
        shape, wanted = instance.tensors[part].shape, axes.rstrip("*")
        fits = len(shape) == len(wanted) or (axes[-1] == "*" and len(shape) >= len(wanted))
        for length, axis in zip(shape, wanted, strict=False):
            fits = fits and length == (int(axis) if axis.isdigit() else found.setdefault(axis, length))
        if not fits:
            words = ", ".join(f"{axis} = {found[axis]}" if axis in found else axis for axis in axes)
            raise InputRejected(f"tensor {instance.name}_{part} has the shape {shape}", f"give it the shape ({words})")
    return found


def _matched(name: str, place: int) -> re.Match[str]:
    match = _NAME.fullmatch(name)
    if match is None or match["system"] not in SYSTEMS:
        raise InputRejected(f"{quoted(name)} belongs to no system of meta_models", _REMEDY)
    needed, optional, numbers = parts_of(match["system"])
    known = needed + optional if place == 0 or match["denominator"] else numbers
    if match["part"] not in known:
        raise InputRejected(
            f"{quoted(name)} is no part of the system {match['system']}", f"use {', '.join(known) or 'none'}"
        )
    return match


def _require_whole(instance: Instance) -> None:
    needed, _, numbers = parts_of(instance.system)
    missing = [part for part in needed if part not in instance.tensors]
    missing += [part for part in numbers if part not in instance.numbers]
    if missing:
        raise InputRejected(f"the system {instance.name} has no {instance.name}_{missing[0]}", "save all its parts")
    for part, under in instance.numbers.items():
        if part.endswith("_denominator"):
            name = part.removesuffix("_denominator")
            if under <= 0 or name not in instance.tensors or instance.tensors[name].dtype.kind not in "iu":
                raise InputRejected(
                    f"{instance.name}_{part} divides nothing", "give a positive one of an integer tensor"
                )
    for part, array in instance.tensors.items():
        if prod(array.shape) == 0:
            raise InputRejected(f"tensor {instance.name}_{part} is empty", "leave the system out")
    sizes(instance)
