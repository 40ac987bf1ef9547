"""Simulated studies: the HeartSteps person model, the chain walk, and outliers to put into their logs."""

from gymnasium.envs.registration import register

from surefoot.simulators.chain_walk import ChainWalk
from surefoot.simulators.contamination import Contaminated, contaminate
from surefoot.simulators.heartsteps import HeartSteps
from surefoot.simulators.simulator import LongRun, Simulator

__all__ = ["ChainWalk", "Contaminated", "HeartSteps", "LongRun", "Simulator", "contaminate"]

# By name only: the environments' module is imported when one is made.
register("surefoot/HeartSteps-v0", "surefoot.simulators.environments:HeartStepsEnv", max_episode_steps=210)
register("surefoot/ChainWalk-v0", "surefoot.simulators.environments:ChainWalkEnv", max_episode_steps=210)
