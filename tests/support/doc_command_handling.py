"""How each command of the documentation is tried out: the one list of what is not simply run.

A command that is in none of these tables is run as it stands, made small by `SMALL`.
"""

# What makes a command small, by module; given again, an option replaces what the page says.
TINY = ("--set", "training.updates=2", "--set", "model.hidden=8", "--set", "training.batch=4")
SMALL = {
    "tardis_core.train": ("--scale", "smoke", *TINY),
    "tardis_core.ngram": ("--orders", "1,2"),
    "benchmarks.tools.rivals": ("--scale", "smoke", "--seeds", "1", "--models", "lstm", *TINY),
    # The plan is made, the data loaded and the model trained for two updates. The whole way on Ray
    # is gone by the tests in BY_ANOTHER_TEST.
    "orchestrator.sweep": ("--smoke", "--dry-run"),
    "orchestrator.compare": ("--smoke", "--dry-run"),
    "examples/own_training_loop.py": ("--updates", "2"),
}
# Evaluations that would take seconds each.
FEW_EXAMPLES = {
    "copy": ("task.valid_sequences=8", "task.test_sequences=8"),
    "recall": ("task.valid_sequences=8", "task.test_sequences=8"),
    "ptb": ("task.evaluation_symbols=500",),
    "strokes": ("task.valid_sequences=8", "task.test_sequences=8"),
    "snli": ("task.evaluation_pairs=20",),
}
# What stands for something of the reader's.
PLACEHOLDERS = {
    "RUN": "runs/ptb",
    "NAME": "one",
    "NAME,NAME": "one,two",
    "DATA": "data",
    "TASK": "copy",
}
# Where a page wants the real data, which tests do not have.
STANDIN = {"real": "standin"}

WHOLE_WAY = (
    "tests/integration/docs/test_sweep_to_service.py::test_make_sweep_its_champion_and_the_examples"
)
# Run, and to their end, by a test of their own. A key is a command or how it begins.
BY_ANOTHER_TEST = {
    "make sweep": WHOLE_WAY,
    "mlflow models serve": WHOLE_WAY,
    "curl http://127.0.0.1:5001/invocations": WHOLE_WAY,
    "python examples/sweep_from_python.py": WHOLE_WAY,
    "python -m tardis_core.train mytext": (
        "tests/integration/docs/test_own_data.py::test_it_is_trained_and_answers"
    ),
    "python -m orchestrator.compare mytext": (
        "tests/integration/docs/test_own_data.py::test_it_is_compared_and_searched"
    ),
    "python -m orchestrator.sweep mytext": (
        "tests/integration/docs/test_own_data.py::test_it_is_compared_and_searched"
    ),
    "python -m orchestrator.sweep --extend NAME": (
        "tests/integration/test_sweep_end_to_end.py::test_a_resumed_and_an_extended_sweep_end_well"
    ),
    "python -m orchestrator.sweep --resume NAME": (
        "tests/integration/test_sweep_end_to_end.py::test_a_resumed_and_an_extended_sweep_end_well"
    ),
    "python -m orchestrator.compare --runs ID,ID,ID": (
        "tests/unit/orchestrator/comparison/test_compare.py::test_runs_of_mlflow_are_grouped_by_all_but_the_seed"
    ),
    "python -m orchestrator.reproduce figure-path-length": (
        "tests/unit/orchestrator/paper/test_reproduce.py::test_the_path_length_of_a_cell_is_that_of_the_paper"
    ),
    "python -m orchestrator.reproduce figure-shortest-path": (
        "tests/unit/orchestrator/paper/test_reproduce.py::test_the_shortest_paths_are_those_of_the_claims"
    ),
    "python -m orchestrator.reproduce gradient-flow": (
        "tests/unit/orchestrator/paper/test_reproduce.py::"
        "test_gradient_flow_trains_once_and_compares_three_models"
    ),
    "python -m orchestrator.reproduce table-ntm": (
        "tests/unit/orchestrator/paper/test_reproduce.py::"
        "test_a_table_uses_the_runs_that_exist_and_counts_what_is_solved"
    ),
    "python -m benchmarks.tools.rivals ptb --parameters 400000 --speed": (
        "tests/unit/benchmarks/test_rivals_benchmark.py::test_speeds_are_measured_without_a_run"
    ),
    "docker/make-secrets.sh": (
        "tests/unit/docker/test_image_files.py::test_secrets_are_long_different_and_closed_to_others"
    ),
}

# Not run here, and why. Their own parsers take the arguments all the same, the modules and files
# that they name exist, and what `sweep` is given inside a container is a sweep.
NOT_RUN = {
    "python -m orchestrator.sweep ptb --address auto": "needs a cluster",
    "python -m orchestrator.reproduce all": "minutes of training",
    "python -m benchmarks.reliability.kill_rounds": "minutes of sweeps that are killed",
    "python -m benchmarks.reliability.outage": "minutes of sweeps that lose a server or a worker",
    "python -m benchmarks.reliability.load": "a thousand trials",
    "python -m benchmarks.speed.overhead": "minutes of sweeps that are timed",
    "python -m benchmarks.speed.proposals": "minutes of proposals and of searches",
    "python -m benchmarks.reliability.faults": "needs root, and breaks a cluster for an hour",
    "python -m benchmarks.reliability.cluster": "needs root, for network namespaces",
    "python -m pytest": "is what runs this",
    "make test": "is what runs this",
    "docker build": "needs a Docker engine and the network",
    "docker compose": "needs a Docker engine",
    ". .venv/bin/activate": "changes the shell of the reader",
    "ray get-auth-token": "writes to the home folder",
    "chmod 600 ~/.ray/auth_token": "writes to the home folder",
    "ray status": "needs a cluster",
    "ray up": "rents machines",
    "ray exec": "rents machines",
    "ray down": "rents machines",
    "kubectl": "needs a Kubernetes cluster",
}


def found_in(table: dict[str, str], text: str) -> str | None:
    """What a table says of a command."""
    said = [value for key, value in table.items() if text == key or text.startswith(f"{key} ")]
    return said[0] if said else None
