"""The Triton backend without a GPU: interpreted, compiled for real GPUs, and counted."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

pytest.importorskip("triton")

from tardis_core.kernels import ahead_of_time, gpu_check, torch_sequence, triton_sequence

pytestmark = pytest.mark.slow  # interpreting and compiling kernels
ROOT = Path(__file__).parents[4]
TOLERANCE = 1e-10
# Operations that only describe the same numbers anew.
VIEWS = {
    "_unsafe_view",
    "alias",
    "as_strided",
    "detach",
    "expand",
    "permute",
    "select",
    "slice",
    "split",
    "split_with_sizes",
    "squeeze",
    "t",
    "transpose",
    "unbind",
    "unflatten",
    "unsqueeze",
    "view",
}


@pytest.fixture(scope="module")
def interpreted() -> dict[str, dict[str, float]]:
    """The differences of each group of cases, by what they are; one process, for its imports."""
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    answer = subprocess.run(
        [sys.executable, "-m", "tests.support.triton_cases"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(answer.stdout)


@pytest.mark.parametrize(("group", "cases"), [("modes", 18), ("sizes", 9), ("through", 5)])
def test_equal_to_the_reference_in_double_precision(interpreted, group, cases):
    differences = interpreted[group]
    assert len(differences) == cases
    assert {case: d for case, d in differences.items() if not d < TOLERANCE} == {}


def test_products_may_be_less_precise_than_the_state(interpreted):
    differences = dict(interpreted["precision"])
    assert differences.pop("check") < TOLERANCE
    for case, difference in differences.items():
        assert 1e-9 < difference < 1e-5, case  # rounded, and no more than that


class _Count(TorchDispatchMode):
    """Counts the operations that launch a kernel on a GPU."""

    def __init__(self):
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        if function._schema.name.partition("::")[2] not in VIEWS:
            self.operations += 1
        return function(*arguments, **(keywords or {}))


def launches(run, steps: int, mask: bool) -> tuple[int, int]:
    """Kernels launched forward and backward by a sequence, on tensors that have no numbers."""
    trained, fixed = gpu_check.problem(torch.device("cpu"))
    move = lambda tensor: tensor if tensor is None else tensor.to("meta")  # noqa: E731
    longer = lambda tensor: tensor[:1].expand(steps, *tensor.shape[1:]).to("meta")  # noqa: E731
    trained = type(trained)._make(map(move, trained))._replace(x_TBD=longer(trained.x_TBD))
    over_time = ("mask_TB", "dropout_TBH", "read_noise_TBK", "reset_noise_TB2")
    fixed = fixed._replace(
        address_KA=move(fixed.address_KA),
        **{name: longer(getattr(fixed, name)) for name in over_time},
    )
    fixed = fixed if mask else fixed._replace(mask_TB=None)
    with ahead_of_time.recorded_launches() as recorded:
        with _Count() as forward:
            outputs = run(trained, fixed)
        ahead = len(recorded)
        with _Count() as backward:
            torch.autograd.grad(outputs.h_TBH, trained.W_h_GH, torch.ones_like(outputs.h_TBH))
    return forward.operations + ahead, backward.operations + len(recorded) - ahead


@pytest.mark.parametrize("mask", [False, True], ids=["whole", "masked"])
def test_four_launches_per_step_each_way(mask):
    """And none of them needs a number on the host, or this would fail on meta tensors."""
    short, long = (launches(triton_sequence.run, steps, mask) for steps in (5, 15))
    per_step = [(b - a) / 10 for a, b in zip(short, long, strict=True)]
    assert per_step == [4, 4]


def test_the_torch_backend_launches_ten_times_as_many():
    short, long = (launches(torch_sequence.run, steps, False) for steps in (5, 15))
    forward, backward = ((b - a) / 10 for a, b in zip(short, long, strict=True))
    assert forward >= 40
    assert backward >= 80


@pytest.mark.parametrize("capability", ahead_of_time.SHARED_MEMORY)
def test_compiles_without_spilling(capability):
    """The kernels of a sequence with everything, at the sizes of the check."""
    trained, fixed = gpu_check.problem(torch.device("cpu"))
    with ahead_of_time.recorded_launches() as recorded:
        outputs = triton_sequence.run(trained, fixed)
        outputs.h_TBH.sum().backward()
    compiled = {each: ahead_of_time.compiled(each, capability) for each in set(recorded)}
    assert {each.kernel for each in compiled} == set(ahead_of_time.KERNELS)
    for launch, resources in compiled.items():
        assert resources.cubin > 0
        assert resources.spilled == 0, launch.kernel
        assert resources.shared <= ahead_of_time.SHARED_MEMORY[capability]
