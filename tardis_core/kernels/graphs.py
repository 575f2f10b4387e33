"""Sequences as CUDA graphs: all launches of a sequence replayed by one call.

A graph works on tensors of its own: inputs are copied in, outputs are cloned out. What forward
leaves for backward stays in the graph, so a graph is leased from forward until the autograd node is
gone; meanwhile a second sequence of the same shape gets another graph.
"""

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tardis_core.kernels.inputs import Fixed, Outputs, Trained

GRAPHS = 64  # kept per process, the least recently used go first; each holds a tape
Forward = Callable[[Trained, Fixed], tuple[Outputs, Any]]
Backward = Callable[[Trained, Fixed, Any, Outputs], Trained]
Maybe = Tensor | None


class Capture(NamedTuple):
    """Work that can be repeated on the same tensors."""

    replay: Callable[[], None]
    results: Any


def capture_cuda(work: Callable[[], Any]) -> Capture:
    """Capture work on the present GPU; it is run before, which compiles the kernels."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = work()
    return Capture(graph.replay, results)


def _own_copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def _copy_in(targets: Sequence[Any], sources: Sequence[Any]) -> None:
    pairs = [(t, s) for t, s in zip(targets, sources, strict=True) if isinstance(t, Tensor)]
    if pairs:
        torch._foreach_copy_([t for t, _ in pairs], [s.detach() for _, s in pairs])


class SequenceGraph:
    """Forward and backward of sequences of one shape."""

    def __init__(
        self,
        forward: Forward,
        backward: Backward,
        capture: Callable[[Callable[[], Any]], Capture],
        trained: Trained,
        fixed: Fixed,
    ) -> None:
        self._backward, self._capture = backward, capture
        self.trained = Trained._make(
            each if each is None else _own_copy(each).requires_grad_(each.requires_grad)
            for each in trained
        )
        self.fixed = Fixed._make(_own_copy(each) for each in fixed)
        self._run = capture(lambda: _no_grad(forward, self.trained, self.fixed))
        self._ways_back: dict[tuple[bool, ...], tuple[Outputs, Capture]] = {}
        self.leased = False

    def forward(self, trained: Trained, fixed: Fixed) -> Outputs:
        """The outputs for these inputs."""
        _copy_in(self.trained, trained)
        _copy_in(self.fixed, fixed)
        self._run.replay()
        outputs, _ = self._run.results
        return Outputs._make(_own_copy(each) for each in outputs)

    def backward(self, incoming: Outputs) -> Trained:
        """The gradients of the inputs of the last `forward`."""
        pattern = tuple(each is not None for each in incoming)
        if pattern not in self._ways_back:
            own = Outputs._make(_own_copy(each) for each in incoming)
            _, tape = self._run.results
            work = self._capture(
                lambda: _no_grad(self._backward, self.trained, self.fixed, tape, own)
            )
            self._ways_back[pattern] = own, work
        own, work = self._ways_back[pattern]
        _copy_in(own, incoming)
        work.replay()
        return Trained._make(_own_copy(each) for each in work.results)


def _no_grad(function: Callable[..., Any], *arguments: Any) -> Any:
    with torch.no_grad():
        return function(*arguments)


class Lease:
    """A graph that belongs to one autograd node until that node is gone."""

    def __init__(self, graph: SequenceGraph) -> None:
        self.graph = graph
        graph.leased = True
        weakref.finalize(self, setattr, graph, "leased", False)


class GraphCache:
    """Graphs by the shapes and the kinds of their inputs."""

    def __init__(
        self,
        forward: Forward,
        backward: Backward,
        capture: Callable[[Callable[[], Any]], Capture] = capture_cuda,
        limit: int = GRAPHS,
    ) -> None:
        self._forward, self._backward, self._capture = forward, backward, capture
        self._limit = limit
        self._graphs: OrderedDict[tuple[Any, ...], list[SequenceGraph]] = OrderedDict()

    def lease(self, trained: Trained, fixed: Fixed) -> Lease:
        """A graph for inputs of this kind that nobody else is using."""
        # Tensors made in inference mode cannot be changed outside of it, and captured products keep
        # their precision: a training in TF32 is evaluated in float32.
        modes = torch.is_inference_mode_enabled(), torch.backends.cuda.matmul.fp32_precision
        key = (*modes, *map(_kind, (*trained, *fixed)))
        graphs = self._graphs.setdefault(key, [])
        self._graphs.move_to_end(key)
        free = next((graph for graph in graphs if not graph.leased), None)
        if free is None:
            free = SequenceGraph(self._forward, self._backward, self._capture, trained, fixed)
            graphs.append(free)
            self._forget()
        return Lease(free)

    def _forget(self) -> None:
        while sum(map(len, self._graphs.values())) > self._limit and len(self._graphs) > 1:
            self._graphs.popitem(last=False)


def _kind(value: Any) -> Any:
    if isinstance(value, Tensor):
        return tuple(value.shape), value.dtype, value.device, value.requires_grad
    return value
