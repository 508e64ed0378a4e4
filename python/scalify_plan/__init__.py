"""The planner: simulates the cost of a training step on GPUs that need not exist.

scalify-plan step.mlir --device h100              # a step with shardings, as compiled
scalify-plan --model llama-70b --mesh 16x8x4      # a model by its sizes: data x tensor x stages
scalify-plan --model llama-70b --gpus 512         # the fastest layout
"""

from __future__ import annotations

from scalify_plan.devices import DEVICES, Device
from scalify_plan.layout import Layout
from scalify_plan.models import MODELS, Model
from scalify_plan.step import Prediction, predict

__all__ = ["DEVICES", "MODELS", "Device", "Layout", "Model", "Prediction", "predict"]
