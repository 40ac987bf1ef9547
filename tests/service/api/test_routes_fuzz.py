"""A schema-driven fuzz run over the OpenAPI description: whatever is sent, the service never fails."""

from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.errors import SchemathesisError

from surefoot.service import access
from surefoot.service.app import create_app
from surefoot.service.trial.participants import register_participant
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.support.trials import STUDY

EXAMPLES = 6


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory):
    trial = open_trial(Study.parse(STUDY), f"sqlite:///{tmp_path_factory.mktemp('fuzz')}/trial.db")
    register_participant(trial.database, "0")
    app = create_app(trial)
    # Fits in processes of their own have tests of their own.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("surefoot.service.updates.updates.start_update", lambda *_, **__: 1)
        yield app, access.create_key(trial.database, "admin")
    trial.close()


@pytest.mark.parametrize("mode", list(GenerationMode), ids=str)
def test_nothing_that_fits_or_breaks_the_description_is_a_5xx(fuzzed, mode):
    app, key = fuzzed
    statuses = Counter()
    for result in schemathesis.openapi.from_asgi("/openapi.json", app).get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def fuzz(case):
            reply = case.call(headers={"Authorization": f"Bearer {key}"})
            statuses[reply.status_code] += 1
            assert reply.status_code < 500, reply.text
            if reply.status_code >= 400:
                assert set(reply.json()["error"]) == {"code", "message", "field"}

        try:
            fuzz()
        except (Unsatisfiable, SchemathesisError):
            # A route without parameters cannot be asked wrongly.
            assert mode == GenerationMode.NEGATIVE
    assert statuses[200 if mode == GenerationMode.POSITIVE else 422] > 0, statuses
