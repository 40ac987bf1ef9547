"""A pytest plugin for `make mutants`: mutmut 3.8 reads `_nodeid` of a test, which pytest 9.2 does not have any more."""

import pytest

if not hasattr(pytest.Item, "_nodeid"):
    pytest.Item._nodeid = property(lambda item: item.nodeid)
