import re

PAGES = (
    *("/", "/participants", "/adherence", "/not-worn", "/updates", "/updates/calendar", "/policies"),
    *("/policies/drift", "/what-if", "/alerts", "/events", "/safety", "/boundaries"),
)


def token(page):
    return re.search(r'name="token" value="([0-9a-f]{64})"', page.text)[1]


def sign_in(browser, role):
    browser.cookies.clear()
    page = browser.get("/sign-in")
    return browser.post("/sign-in", data={"token": token(page), "key": browser.keys[role]})


def live(browser):
    found = browser.trial.policies.live()
    return None if found is None else found[0]
