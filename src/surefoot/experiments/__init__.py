"""The paper's experiments S1 to S4: run, resumed, judged claim by claim, and reported."""
