"""What the help of `sweep` and `compare` says."""

import pytest

from orchestrator.planning.arguments import comparison_parser, search_parser


@pytest.mark.parametrize(
    ("parser", "own", "other"),
    [(search_parser, "sweep", "comparison"), (comparison_parser, "comparison", "sweep")],
)
def test_the_shared_options_are_explained_with_the_word_for_what_is_run(parser, own, other):
    text = " ".join(parser().format_help().split())
    sentences = (
        "resume a {} that was stopped",
        "name of the {} (",
        "when the {} has ended",
        "folder of the {})",
    )
    assert all(each.format(own) in text for each in sentences)
    assert not any(each.format(other) in text for each in sentences)
