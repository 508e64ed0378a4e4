"""The planner: what a training step would cost on GPUs that are not there. All is simulated.

scalify-plan step.mlir --device h100              # a step with shardings, as compiled
scalify-plan --model llama-70b --mesh 16x8x4      # a model by its sizes: data x tensor x stages
scalify-plan --model llama-70b --gpus 512         # which layout?
"""

from __future__ import annotations

from scalify.plan.devices import DEVICES, Device
from scalify.plan.layout import Layout
from scalify.plan.models import MODELS, Model
from scalify.plan.step import Prediction, predict

__all__ = ["DEVICES", "MODELS", "Device", "Layout", "Model", "Prediction", "predict"]
