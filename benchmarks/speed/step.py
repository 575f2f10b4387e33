"""Cost of a training step compared with torch.nn.LSTM.

python -m benchmarks.speed.step            # a few minutes; updates docs/performance.md
python -m benchmarks.speed.step --quick    # one size, half a minute; prints only
python -m benchmarks.speed.step --device cuda    # on a GPU, next to cuDNN; updates the page too
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from benchmarks.speed.cases import (
    SIZES,
    TORCH_LSTM,
    Case,
    Size,
    evaluation,
    generation,
    training_step,
)
from benchmarks.speed.measure import machine, medians, peak_megabytes
from benchmarks.speed.training import SECONDS_PER_BACKEND, training_rates
from tardis_core.cli import Parser, command
from tardis_core.errors import UserError

PAGE = Path("docs/performance.md")
BEGIN, END = (
    "<!-- measured: python -m benchmarks.speed.step -->",
    "<!-- end of what was measured -->",
)
GPU_BEGIN, GPU_END = (
    "<!-- measured: python -m benchmarks.speed.step --device cuda -->",
    "<!-- end of what was measured on a GPU -->",
)

ESTIMATORS = ("gumbel", "reinforce")
NATIVE = [
    *(Case(kind, norm=norm) for norm in (False, True) for kind in ESTIMATORS),
    *(Case("lstm", norm=norm) for norm in (False, True)),
]
OTHERS = [
    *(Case(kind, "torch", norm) for norm in (False, True) for kind in ESTIMATORS),
    *(Case("gumbel", "reference", norm) for norm in (False, True)),
]
MEMORY = [TORCH_LSTM, Case("gumbel"), Case("reinforce"), Case("gumbel", norm=True), Case("lstm")]
PLAIN = [TORCH_LSTM, Case("gumbel"), Case("lstm"), Case("gumbel", "torch")]
GROWTH = Size(100, 32, 50, 256, 20, 64, 8)
CELLS = (20, 64, 256, 1024)
LENGTHS = (1250, 2500, 5000)


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def compare(
    make: Callable[[Case, Size], Callable[[], None]],
    cases: Sequence[Case],
    size: Size,
    seconds: float,
    slow: Sequence[Case] = (),
) -> dict[Case, float]:
    """Median seconds of each case."""
    runs = {case.name: make(case, size) for case in cases}
    seconds_by_name = medians(runs, seconds, tuple(case.name for case in slow))
    return {case: seconds_by_name[case.name] for case in cases}


def ratios(seconds: dict[Case, float], cases: Sequence[Case]) -> list[str]:
    """The time of each case divided by that of nn.LSTM."""
    return [f"{seconds[case] / seconds[TORCH_LSTM]:.2f}" for case in cases]


def steps(names: Sequence[str], seconds: float) -> str:
    """Training steps of every size, with two threads and with one."""
    fast, rest = [], []
    for threads in (2, 1):
        torch.set_num_threads(threads)
        for name in names:
            others = OTHERS if threads == 2 else []
            cases = [TORCH_LSTM, *NATIVE, *others]
            times = compare(training_step, cases, SIZES[name], seconds, others)
            start = [name, str(threads), f"{1000 * times[TORCH_LSTM]:.1f} ms"]
            fast.append([*start, *ratios(times, NATIVE)])
            if others:
                rest.append([name, *ratios(times, others)])
    names_of = [f"{case.kind}{' + norm' if case.norm else ''}" for case in NATIVE]
    others_of = [f"{c.kind}{' + norm' if c.norm else ''}, {c.backend}" for c in OTHERS]
    return (
        "### One training step, as a multiple of `nn.LSTM`\n\nBackend `native`:\n\n"
        + table(["size", "threads", "nn.LSTM", *names_of], fast)
        + "\nThe other backends, two threads:\n\n"
        + table(["size", *others_of], rest)
    )


def memory(names: Sequence[str]) -> str:
    """Peak memory of a training step by size."""
    rows = []
    for name in names:
        peaks = [peak_megabytes(case, SIZES[name]) for case in MEMORY]
        rows.append([name, *(f"{peak:.0f}" for peak in peaks)])
    more = SIZES["m"]._replace(K=256)
    peaks = [peak_megabytes(case, more) for case in MEMORY[1:4]]
    rows.append(["m, K = 256", "", *(f"{peak:.0f}" for peak in peaks), ""])
    return "### Peak memory of a training step, MB (without the weights)\n\n" + table(
        ["size", *(case.name for case in MEMORY)], rows
    )


def growth() -> str:
    """Time by number of cells and by length."""
    torch.set_num_threads(1)
    cases = [TORCH_LSTM, Case("gumbel"), Case("reinforce")]
    cells = []
    for K in CELLS:
        times = compare(training_step, cases, GROWTH._replace(K=K), 6)
        cells.append([str(K), *ratios(times, cases[1:])])
    torch.set_num_threads(2)
    lengths = []
    for T in LENGTHS:
        size = SIZES["s"]._replace(T=T)
        times = compare(training_step, cases[:2], size, 6)
        peak = peak_megabytes(cases[1], size)
        milliseconds = [f"{1000 * times[case]:.0f}" for case in cases[:2]]
        lengths.append([f"{T:,}", *milliseconds, f"{peak:.0f}"])
    return (
        "### Growth\n\nWith the number of cells, as a multiple of `nn.LSTM` "
        "(T 100, B 32, H 256, one thread):\n\n"
        + table(["K", *(case.kind for case in cases[1:])], cells)
        + "\nWith the length, size s, two threads:\n\n"
        + table(["T", "nn.LSTM, ms", "gumbel, ms", "gumbel, peak MB"], lengths)
    )


def without_gradients(names: Sequence[str]) -> str:
    """Evaluation of a batch and generation of one sequence."""
    rows = []
    torch.set_num_threads(2)
    for name in names:
        for what, make, scale in (("evaluation", evaluation, 1e3), ("one symbol", generation, 2e4)):
            times = compare(make, PLAIN, SIZES[name], 3)
            base = f"{scale * times[TORCH_LSTM]:.{1 if scale == 1e3 else 0}f}"
            unit = "ms" if what == "evaluation" else "us"
            rows.append([name, what, f"{base} {unit}", *ratios(times, PLAIN[1:])])
    return (
        "### Without gradients, as a multiple of `nn.LSTM`\n\n"
        "Evaluation of a batch, and generation of one sequence symbol by symbol; two threads:\n\n"
        + table(["size", "what", "nn.LSTM", *(case.name for case in PLAIN[1:])], rows)
    )


def training(data_dir: str | None) -> str:
    """Symbols per second of a real training run."""
    rates, data = training_rates(data_dir)
    rows = [
        [backend, *(f"{rates[backend, threads]:,.0f}" for threads in (1, 2))]
        for backend in ("reference", "torch", "native")
    ]
    return (
        "### Training on the Penn Treebank: symbols per second\n\n"
        "`python -m tardis_core.train ptb --scale small --set model.backend=...`, TARDIS with\n"
        f"gumbel, data {data}; including head, loss and optimiser; "
        f"{SECONDS_PER_BACKEND} seconds per number:\n\n"
        + table(["backend", "one thread", "two threads"], rows)
    )


def write_page(text: str, first: str = BEGIN, last: str = END) -> None:
    """Replace the measured part of the page, between its first and its last line."""
    before, begin, rest = PAGE.read_text().partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise UserError(f"{PAGE} must have the lines {first} and {last}")
    PAGE.write_text(f"{before}{first}\n\n{text}\n{last}{after}")


def _on_gpu(names: Sequence[str], quick: bool) -> int:
    # Only now: it imports Triton, which a machine without a GPU need not have.
    from benchmarks.speed.gpu_step import gpu_table

    text = gpu_table(names)
    print(text)
    if not quick:
        write_page(text, GPU_BEGIN, GPU_END)
    return 0


@command
def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; update the page after a full run."""
    parser = Parser(
        prog="python -m benchmarks.speed.step", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--quick", action="store_true", help="measure one size and write nothing")
    parser.add_argument("--size", default="s", help="size for --quick (default: s)", choices=SIZES)
    parser.add_argument("--data-dir", metavar="DIR", help="data directory (default: TARDIS_DATA)")
    parser.add_argument(
        "--device", default="cpu", choices=("cpu", "cuda"), help="default: %(default)s"
    )
    options = parser.parse_args(arguments)
    if not options.quick and not PAGE.exists():
        raise UserError(f"{PAGE} must exist: run this in the folder of the project, or use --quick")
    names = [options.size] if options.quick else list(SIZES)
    if options.device == "cuda":
        return _on_gpu(names, options.quick)
    parts = [
        lambda: f"Measured on {machine()}.\n",
        lambda: steps(names, 6 if options.quick else 12),
        lambda: without_gradients(names),
    ]
    if not options.quick:
        parts += [lambda: memory(names), growth, lambda: training(options.data_dir)]
    before = torch.get_num_threads()
    texts = []
    try:
        for part in parts:
            texts.append(part())
            print(texts[-1], flush=True)
    finally:
        torch.set_num_threads(before)
    if not options.quick:
        write_page("\n".join(texts))
        print(f"written to {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
