"""One browser for all tests of the page."""

import pytest

from tests.lab.playground.browser import CHROMIUM, Browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed")
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()
