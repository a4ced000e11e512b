"""The training loop: optimiser steps, schedules, validation, checkpoints and resuming."""
