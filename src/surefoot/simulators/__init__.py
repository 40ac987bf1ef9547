"""Simulated studies: HeartSteps, the chain walk, Gymnasium environments, and artefacts for their logs."""

from gymnasium.envs.registration import register

from surefoot.simulators.chain_walk import ChainWalk
from surefoot.simulators.contamination import Contaminated, contaminate
from surefoot.simulators.gymnasium_import import GymnasiumPeople
from surefoot.simulators.heartsteps import HeartSteps
from surefoot.simulators.measures import (
    Estimate,
    coefficient_error,
    compare,
    immediate_regret,
    long_run_average_reward,
    reference_policies,
    share_treated,
)
from surefoot.simulators.simulator import LongRun, Simulation, Simulator, Situation, WithMemory

__all__ = [
    "ChainWalk",
    "Contaminated",
    "Estimate",
    "GymnasiumPeople",
    "HeartSteps",
    "LongRun",
    "Simulation",
    "Simulator",
    "Situation",
    "WithMemory",
    "coefficient_error",
    "compare",
    "contaminate",
    "immediate_regret",
    "long_run_average_reward",
    "reference_policies",
    "share_treated",
]

# By name only: the environments' module is imported when one is made.
register("surefoot/HeartSteps-v0", "surefoot.simulators.gymnasium_envs:HeartStepsEnv", max_episode_steps=210)
register("surefoot/ChainWalk-v0", "surefoot.simulators.gymnasium_envs:ChainWalkEnv", max_episode_steps=210)
