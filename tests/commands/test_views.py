"""What `regard lens --show` prints is what `regard.show` gives in Python, where a notebook draws it."""

import pytest

import regard
from tests import command

TEXT = "the cat sees the dog ."


@pytest.mark.parametrize(("view", "options"), [("heads", {}), ("weights", {"head": 1, "words": True})])
def test_python_is_shown_what_the_command_prints(view, options):
    run = str(command.trained())
    typed = [part for name, given in options.items() for part in ([f"--{name}"] if given is True else [f"--{name}", given])]
    printed = command.regard("lens", run, TEXT, "--show", view, *typed).out
    shown = regard.show(view, run, TEXT, **options)
    assert "\n".join(shown.lines()) == printed.rstrip("\n")
    assert "<svg" in shown._repr_html_() or "<img" in shown._repr_html_()


def test_a_view_that_is_none_is_told():
    with pytest.raises(regard.UserError, match="did you mean 'heads'"):
        regard.show("hedas", "runs/none", TEXT)
