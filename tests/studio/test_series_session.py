"""Windows of a run's own table: which can be asked for, that they are the model's, and that no request names a file."""

from __future__ import annotations

import numpy as np
import pytest

from regard.core.errors import UserError
from regard.studio.series_session import SeriesSession
from tests.studio.tiny_series import SeriesOpening


@pytest.fixture(scope="module")
def session() -> SeriesSession:
    found = SeriesOpening("patchtst").open(None)
    assert isinstance(found, SeriesSession)
    return found


def test_windows_of_the_runs_own_table_can_be_asked_for(session):
    assert session.series == {"names": ["a", "b", "c"], "rows": [(24, 400)] * 3, "lookback": 24, "horizon": 6}
    assert session.example == "a@394"
    subject = session.subject("b@100", None)
    found = subject.series
    np.testing.assert_array_equal(found.past_LC, session.table.series[0].values_TC[76:100])
    np.testing.assert_array_equal(found.actual_HC, session.table.series[0].values_TC[100:106])
    assert found.channel == 1
    assert session.answer("b@100") == subject.title == "seasons, b → the next 6 times"
    assert session.subject("b@400", None).series.actual_HC is None


@pytest.mark.parametrize("text", ["t.csv", "/etc/passwd", "a", "a@", "z@100", "a@1e2", "a@-5", "a@999999999999", "a@²"])
def test_what_is_no_window_is_refused(session, text):
    with pytest.raises(UserError, match=r"no window of this run; .* such as a@394"):
        session.subject(text, None)


@pytest.mark.parametrize("row", [23, 401])
def test_rows_without_a_whole_look_back_are_refused(session, row):
    with pytest.raises(UserError, match="from 24 to 400"):
        session.subject(f"a@{row}", None)


def test_what_a_forecaster_has_not_is_refused(session):
    for asked in (session.vocabulary, lambda: session.uses("a", ["a"]), lambda: session.document("a@100")):
        with pytest.raises(UserError):
            asked()
    with pytest.raises(UserError, match="a linear map of the window"):
        SeriesOpening("dlinear").open(None).subject("a@100", None)
