"""How the tests treat each documented command: the single list of exceptions.

A command that is in neither table below is run as documented, made small by `SMALL`.
"""

import runpy
import sys

import pytest

# Options that make a command small, by module; a repeated option overrides the one on the page.
TINY = ("--set", "training.updates=2", "--set", "model.hidden=8", "--set", "training.batch=4")
SMALL = {
    "tardis_core.train": ("--scale", "smoke", *TINY),
    "tardis_core.ngram": ("--orders", "1,2", "--epochs", "1", "--rows", "4096"),
    "benchmarks.tools.coverage": ("--simulations", "2"),
    "benchmarks.tools.rare_estimates": ("--scale", "smoke", "--counts", "2"),
    "benchmarks.tools.sample_sweep": ("--trials", "12"),
    # Makes the plan, loads the data and trains two updates. The tests in RUN_BY_ANOTHER_TEST
    # run whole sweeps on Ray.
    "orchestrator.sweep": ("--smoke", "--dry-run"),
    "orchestrator.compare": ("--smoke", "--dry-run"),
    "examples/own_training_loop.py": ("--updates", "2"),
    "benchmarks.speed.race": ("--rounds", "2"),
    "benchmarks.speed.large_weights": ("--seconds", "0", "--size", "s"),
    "benchmarks.speed.schedulers": ("--rounds", "2"),
    "benchmarks.speed.estimators": ("--seconds", "0", "--cells", "4", "--longest", "2"),
}
# Evaluations that would otherwise take seconds each.
FEW_EXAMPLES = {
    "copy": ("task.valid_sequences=8", "task.test_sequences=8"),
    "recall": ("task.valid_sequences=8", "task.test_sequences=8"),
    "repeat-copy": ("task.valid_sequences=8", "task.test_sequences=8"),
    "priority-sort": ("task.valid_sequences=8", "task.test_sequences=8"),
    "mqar": ("task.valid_sequences=8", "task.test_sequences=8"),
    "selective-copy": ("task.valid_sequences=8", "task.test_sequences=8"),
    "adding": ("task.valid_sequences=8", "task.test_sequences=8"),
    "ptb": ("task.evaluation_symbols=500",),
    "strokes": ("task.valid_sequences=8", "task.test_sequences=8"),
    "snli": ("task.evaluation_pairs=20",),
}
# What the reader would replace, and what the tests put there.
PLACEHOLDERS = {
    "RUN": "runs/ptb",
    "NAME": "one",
    "NAME,NAME": "one,two",
    "DATA": "data",
    "TASK": "copy",
}
# Options whose value on the page is replaced: tests have no real data, and large models are slow.
REPLACED_VALUES = {"--data": {"real": "standin"}, "--parameters": {"400000": "25000"}}

SWEEP_TO_SERVICE = (
    "tests/integration/docs/test_sweep_to_service.py::"
    "test_make_sweep_its_champion_and_the_examples_work"
)
OWN_TASK_SEARCHED = (
    "tests/integration/docs/test_own_data.py::test_the_task_can_be_compared_and_searched"
)
RESUMED = (
    "tests/integration/test_sweep_end_to_end.py::test_a_resumed_and_an_extended_sweep_end_well"
)
REPRODUCE = "tests/unit/orchestrator/paper/test_reproduce.py::"
# Commands that a test of their own runs to the end. A key is a command, or how it begins.
RUN_BY_ANOTHER_TEST = {
    "make sweep": SWEEP_TO_SERVICE,
    "mlflow models serve": SWEEP_TO_SERVICE,
    "curl http://127.0.0.1:5001/invocations": SWEEP_TO_SERVICE,
    "python examples/sweep_from_python.py": SWEEP_TO_SERVICE,
    "python -m tardis_core.train mytext": (
        "tests/integration/docs/test_own_data.py::test_the_task_can_be_trained_and_served"
    ),
    "python -m tardis_core.train --start-from": (
        "tests/unit/tardis_core/test_start_from.py::test_the_command_trains_a_run_of_its_own_and_records_where_it_started"
    ),
    "python -m orchestrator.compare mytext": OWN_TASK_SEARCHED,
    "python -m orchestrator.sweep mytext": OWN_TASK_SEARCHED,
    "python -m orchestrator.sweep --extend NAME": RESUMED,
    "python -m orchestrator.sweep --resume NAME": RESUMED,
    "sbatch examples/slurm.sh": (
        "tests/unit/examples/test_slurm.py::"
        "test_before_the_time_limit_the_sweep_stops_and_the_next_run_resumes_it"
    ),
    "python -m orchestrator.control NAME": (
        "tests/unit/orchestrator/execution/test_control.py::"
        "test_the_command_says_what_the_driver_answers"
    ),
    "python -m orchestrator.compare --runs ID,ID,ID": (
        "tests/unit/orchestrator/comparison/test_runs.py::"
        "test_runs_of_mlflow_are_grouped_by_all_but_the_seed"
    ),
    "python -m orchestrator.reproduce figure-path-length": (
        REPRODUCE + "test_the_path_length_of_a_cell_is_that_of_the_paper"
    ),
    "python -m orchestrator.reproduce figure-shortest-path": (
        REPRODUCE + "test_the_shortest_paths_are_those_of_the_claims"
    ),
    "python -m orchestrator.reproduce gradient-flow": (
        REPRODUCE + "test_gradient_flow_trains_once_and_compares_three_models"
    ),
    "python -m orchestrator.reproduce estimator-quality": (
        REPRODUCE + "test_estimator_quality_judges_every_estimator_at_every_stage"
    ),
    "python -m orchestrator.reproduce longer-sequences": (
        REPRODUCE + "test_longer_sequences_are_measured_with_the_cells_of_training_and_with_more"
    ),
    "python -m orchestrator.reproduce memory-only-head": (
        REPRODUCE + "test_the_memory_only_head_is_measured_on_more_and_more_knowledge"
    ),
    "python -m orchestrator.reproduce table-ntm": (
        REPRODUCE + "test_a_table_uses_the_runs_that_exist_and_counts_what_is_solved"
    ),
    "python -m orchestrator.reproduce table-ptb": (
        REPRODUCE + "test_a_part_of_a_table_is_reproduced_by_itself"
    ),
    "python -m orchestrator.reproduce table-strokes": (
        REPRODUCE + "test_a_part_of_a_table_is_reproduced_by_itself"
    ),
    "python -m benchmarks.tools.intervals": (
        "tests/unit/benchmarks/test_intervals.py::test_the_table_of_the_notebook_can_be_drawn"
    ),
    "python -m benchmarks.tools.epoch_curves": (
        "tests/unit/benchmarks/test_epoch_curves.py::test_the_table_of_the_notebook_can_be_drawn"
    ),
    "python -m benchmarks.tools.terminal": (
        "tests/unit/benchmarks/test_terminal.py::test_the_figure_shows_the_command_and_the_trials"
    ),
    "docker/make-secrets.sh": (
        "tests/unit/docker/test_image_files.py::test_secrets_are_long_distinct_and_private"
    ),
}

# Commands that are not run, and why. Their own parsers still accept the arguments, the modules and
# files that they name exist, and what `sweep` gets inside a container are options of a sweep.
NOT_RUN = {
    "python -m orchestrator.sweep ptb --address auto": "needs a cluster",
    "python -m orchestrator.reproduce all": "minutes of training",
    "python -m benchmarks.reliability.kill_rounds": "minutes of sweeps that are killed",
    "python -m benchmarks.reliability.stops": "minutes of sweeps that are stopped",
    "python -m benchmarks.reliability.outage": "minutes of sweeps that lose a server or a worker",
    "python -m benchmarks.reliability.load": "a thousand trials",
    "python -m benchmarks.speed.overhead": "minutes of sweeps that are timed",
    "python -m benchmarks.speed.waiting": "minutes of training that is timed",
    "python -m benchmarks.speed.precision": "needs a CPU with instructions for bfloat16",
    "python -m benchmarks.speed.proposals": "minutes of proposals and searches",
    "python -m benchmarks.reliability.faults": "needs root, and breaks a cluster for an hour",
    "python -m benchmarks.reliability.cluster": "needs root, for network namespaces",
    "python -m benchmarks.speed.gpu_kernels": "compiles for minutes, and changes the page",
    "python -m benchmarks.speed.step --device cuda": "needs a GPU",
    "python -m benchmarks.tools.mutants": "runs the tests of every mutant",
    "python -m benchmarks.tools.notebook": "changes the notebook; a minute of training and a sweep",
    "python -m benchmarks.tools.report_load": "needs chromium and a large sweep",
    "python -m orchestrator.doctor --gpu": "needs a cluster with GPUs",
    "python -m pytest": "runs this test",
    "make test": "runs this test",
    "docker build": "needs a Docker engine and the network",
    "docker compose": "needs a Docker engine",
    ". .venv/bin/activate": "changes the reader's shell",
    "ray get-auth-token": "writes to the home folder",
    "chmod 600 ~/.ray/auth_token": "writes to the home folder",
    "ray status": "needs a cluster",
    "ray up": "rents machines",
    "ray exec": "rents machines",
    "ray down": "rents machines",
    "kubectl": "needs a Kubernetes cluster",
}


def entry_for(table: dict[str, str], command: str) -> str | None:
    """The entry of a table for a command, or None."""
    matches = (text for key, text in table.items() if f"{command} ".startswith(f"{key} "))
    return next(matches, None)


def run_module(module: str, arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run `python -m MODULE ARGUMENTS` in this process; returns its exit code."""
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ending:
        return int(ending.code or 0)
    return 0
