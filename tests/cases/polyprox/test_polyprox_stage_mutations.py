"""Deliberately weakened bounds of the stage: the tests that hold bounds against the truth catch each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import test_polyprox_stage_constants as constants
import test_polyprox_stage_face as faces
import test_polyprox_stage_hessian as hessians
from certify.cases.polyprox.stage import hessian as hessian_module
from certify.cases.polyprox.stage import methods, prediction, refutation
from certify.cases.polyprox.stage.problem import Problem
from certify.cases.polyprox.stage.refutation import Refutation
from test_polyprox_stage_soundness import KINDS, Map, Stages, false_refutation, judged

from certify.arithmetic.midrad import MidRad, box
from certify.contraction.fixed_point import Existence

Curvature = Callable[..., MidRad]


def without_the_diagonal(weights: MidRad, powers: list[MidRad], state: Any, entries: Any, whole: Curvature) -> MidRad:
    """K_h without 2 (Y^(N-1))_ji."""
    diagonal = powers[state.N - 1][(entries[1], entries[0])].scaled(1)
    return whole(weights, powers, state, entries) - MidRad.exact(np.diag(diagonal.mid))


def half(weights: MidRad, powers: list[MidRad], state: Any, entries: Any, whole: Curvature) -> MidRad:
    """K_h / 2."""
    return whole(weights, powers, state, entries).scaled(-1)


def without_the_radius(weights: MidRad, powers: list[MidRad], state: Any, entries: Any, whole: Curvature) -> MidRad:
    """The midpoint of K_h alone."""
    return MidRad.exact(whole(weights, powers, state, entries).mid)


@pytest.mark.parametrize("weakened", [without_the_diagonal, half, without_the_radius])
def test_a_weakened_hessian_of_the_cycles_does_not_enclose(weakened: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The exact Hessian at points of the box is outside."""
    whole = hessian_module._curvature
    monkeypatch.setattr(hessian_module, "_curvature", lambda *arguments: weakened(*arguments, whole))
    with pytest.raises(AssertionError):
        hessians.test_every_point_of_the_box_is_enclosed(3, 4)


def test_a_hessian_without_the_outer_product_does_not_enclose(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without rho H (x) H and W (x) W the exact Hessian is outside."""
    monkeypatch.setattr(hessian_module, "_outer", lambda a, b: MidRad.exact(np.zeros((len(a.mid), len(b.mid)))))
    with pytest.raises(AssertionError):
        hessians.test_every_point_of_the_box_is_enclosed(3, 4)


@pytest.mark.parametrize("name", ["c_h", "c_H", "L_H", "T_H"])
@pytest.mark.parametrize("kind", constants.KINDS)
def test_a_constant_ten_times_too_small_is_exceeded(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """h, its gradient, its Hessian, or the change of it, somewhere on the ball."""
    whole = constants.KINDS[kind]

    def weakened(*arguments: Any) -> Any:
        found = whole(*arguments)
        return replace(found, **{name: getattr(found, name) / 10})

    monkeypatch.setitem(constants.KINDS, kind, weakened)
    with pytest.raises(AssertionError):
        constants.test_constants_bound_the_truth_on_the_ball(kind, 4)


def test_a_displacement_taken_for_zero_makes_false_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """d = 0 around centres that move: points leave the ball."""
    monkeypatch.setattr(Problem, "d", 0.0)
    _, wrong = judged(40, 0)
    assert any("left the ball" in fault for fault in wrong)


def test_a_curvature_that_does_not_vary_makes_false_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """mu, L of the centre taken for those of the ball: eigenvalues outside, or pairs that do not come closer."""

    def of_the_centre(problem: Problem, entries: Any, radius: float) -> tuple[float, float]:
        centre = problem.curvature_at_center(entries)
        return centre.low, centre.high

    monkeypatch.setattr(Problem, "curvature", of_the_centre)
    _, wrong = judged(40, 0)
    assert any("eigenvalues" in fault for fault in wrong)


def test_the_whole_ball_taken_for_the_entry_radius_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starts off the face, at up to a hundred times the proved entry radius: one update leads out of the ball."""
    whole = methods._entry_radius
    monkeypatch.setattr(methods, "_entry_radius", lambda *arguments: 100 * whole(*arguments))
    with pytest.raises(AssertionError):
        faces.test_starts_off_the_face_land_in_the_ball_after_one_update()


def crossed(count: int) -> tuple[int, int]:
    """How many random stages have fixed branches over a ball, and at how many of those some point crosses a branch."""
    rng = np.random.default_rng(5)
    stages, fixed, wrong = Stages(rng), 0, 0
    for k in range(count):
        problem = stages.draw(KINDS[k % 2])
        radius = float(10 ** rng.uniform(-3, -0.3))
        free = problem.center != 0
        if not free.any() or not prediction.fixed_branches(problem, np.nonzero(free), radius):
            continue
        state, P = problem.state, Map(problem.state)
        signs = rng.choice([-1.0, 1.0], (40, np.count_nonzero(free)))
        points = np.repeat(problem.center[None].astype(np.longdouble), 40, axis=0)
        points[:, free] += signs * (radius * (1 - 1e-9))  # the corners of the box are what is claimed
        V = (points - P.gamma * P.gradient(points))[:, free] * np.sign(problem.center[free])
        fixed += 1
        wrong += not bool((state.gamma * state.lam < V).all())
    return fixed, wrong


def test_fixed_branches_are_not_crossed() -> None:
    """sign(U) V > gamma lam at the corners of the boxes where it is claimed."""
    fixed, wrong = crossed(80)
    assert fixed > 10
    assert wrong == 0


@pytest.mark.parametrize("name", ["box", "hessian"])
def test_branches_of_the_centre_taken_for_the_box_are_crossed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """W, or its gradient, held at the centre: some corner crosses a branch that is said to be fixed."""
    if name == "box":
        monkeypatch.setattr(prediction, "box", lambda center, radius: box(center, 0.0))
    else:
        whole = prediction.hessian
        monkeypatch.setattr(prediction, "hessian", lambda state, W, radius, face: whole(state, W, 0.0, face))
    assert crossed(200)[1] > 0


def refuted(count: int) -> list[str]:
    """What is wrong with the refutations of random stages around planted and unpolished centres."""
    rng = np.random.default_rng(3)
    stages, wrong = Stages(rng), []
    for k in range(count):
        problem = stages.draw(("planted", "unpolished")[k % 2])
        found = refutation.refute(problem.state, problem.center)
        if found.refuted:
            wrong.append(false_refutation(problem, found))
    return wrong


def test_existence_taken_for_granted_makes_false_refutations(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fixed point lies in a cube much smaller than the Newton step from a centre that is none."""
    assert not any(refuted(60))
    radii = refutation._radii
    monkeypatch.setattr(refutation, "_radii", lambda *arguments: [r / 1000 for r in radii(*arguments)])
    monkeypatch.setattr(
        refutation, "newton_kantorovich", lambda residual, jacobian, inverse, radius: Existence(radius, "")
    )
    assert any("no fixed point" in fault for fault in refuted(60))


def test_a_cube_that_is_too_small_misses_the_fixed_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousandth of the proved cube does not hold it."""
    whole = refutation._in_cube

    def shrunk(*arguments: Any) -> Refutation:
        found = whole(*arguments)
        return replace(found, radius=found.radius / 1000)

    monkeypatch.setattr(refutation, "_in_cube", shrunk)
    assert any("no fixed point" in fault for fault in refuted(60))
