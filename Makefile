# The commands of the project. Each sets up what it needs and skips what is done.

SHELL := /bin/bash
PY := PYTHONPATH=python SCALIFY_BUILD=$(CURDIR)/build .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*/\1/p' Makefile)

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /make \1|/' | column -t -s '|'

train: build ## train the example LLaMA in FP8, with the F32 run beside it (ARGS= for options)
	@$(PY) examples/llama/train.py $(ARGS)

test: build ## run every test: lit, GoogleTest, pytest
	@scripts/test.sh

wheel: ## make a wheel with all libraries it needs, in build/wheels; tests are not built
	@scripts/setup.sh packages python package
	@scripts/wheel.sh

setup: ## install Debian and Python packages
	@scripts/setup.sh packages python

build: ## set up, then build into build/
	@scripts/setup.sh packages python build

check: build ## the quick tests: lint without clang-tidy, lit, GoogleTest, and the main ways through (3 minutes)
	@scripts/test.sh -L 'quick|unit'

lint: build ## check format, style and types; clang-tidy over what changed, for four minutes at most
	@scripts/lint.sh

tidy: build ## clang-tidy over every file that changed, or whose headers did, however long it takes
	@.venv/bin/python scripts/tidy.py --seconds 0

format: setup ## mend the format of C++ and Python sources
	@git ls-files '*.cpp' '*.h' '*.c' | xargs -r clang-format-22 -i
	@.venv/bin/ruff format --quiet . && .venv/bin/ruff check --quiet --fix .

bench: build ## time training steps of twelve models under recipes against jax.jit in F32 and BF16 (ARGS= for options)
	@$(PY) benchmarks/suite.py $(ARGS)

bench-torch: build ## time training steps beside PyTorch in F32 and BF16, eager and compiled (ARGS= for options)
	@.venv/bin/python scripts/torch_environment.py benchmarks/torch_peer.py $(ARGS)

bench-memory: build ## compare the memory of training steps by recipe with XLA's (ARGS= for options)
	@$(PY) benchmarks/step_memory.py $(ARGS)

bench-files: build ## train two steps of 134 M and 1.24 B parameters from a Hugging Face checkpoint to another (ARGS= for options)
	@$(PY) benchmarks/llama_files.py $(ARGS)

roofline: build ## compare each command of training steps with the peaks of this machine's cores and memory (ARGS= for options)
	@$(PY) benchmarks/roofline.py $(ARGS)

bench-step: build ## time the example's training step against jax.jit on the same cores (ARGS= for options)
	@$(PY) benchmarks/step.py $(ARGS)

bench-compiler: build ## time the compiler on a LLaMA of 8 to 80 layers: linear? (ARGS= for options)
	@$(PY) benchmarks/propagate.py $(ARGS)

bench-scans: build ## time training steps of long scans against jax.jit: RNN, LSTM, Mamba, RWKV (ARGS= for options)
	@$(PY) benchmarks/scans.py $(ARGS)

numerics: build ## print the drift bar and the gradient bar of the example (ARGS= for options)
	@$(PY) examples/llama/numerics.py $(ARGS)

seeds: build ## train under each recipe with 8 seeds, 1,000 steps; table of paired gaps (hours; goes on where it stopped)
	@$(PY) benchmarks/numerics/seeds.py $(ARGS)

sweep: build ## train by each recipe at three learning rates, 3 seeds; table of gaps and divergences (hours; goes on where it stopped)
	@$(PY) benchmarks/numerics/sweep.py $(ARGS)

long-run: build ## train 8.6 M parameters 2,000 steps of 8,192 tokens by each recipe, 3 seeds (days; goes on where it stopped; ARGS= for options)
	@$(PY) benchmarks/numerics/long_run.py $(ARGS)

transfer: build ## table of learning rates by width, F32, fp8 and muS, short runs (ARGS=--write for the docs' page)
	@$(PY) benchmarks/numerics/transfer.py $(ARGS)

cost: build ## table of memory and bytes between 1, 2 and 4 ranks by recipe, the long run's model (ARGS=--write)
	@$(PY) benchmarks/numerics/cost.py $(ARGS)

recipes: build ## table of every preset's gradients beside F32's, at weights of F32 training (ARGS=--write for the docs' page)
	@$(PY) benchmarks/numerics/recipes.py $(ARGS)

along: build ## table of gradients along FP8 training itself, 12 layers, by four paths (ARGS=--write for the docs' page)
	@$(PY) benchmarks/numerics/along.py $(ARGS)

true-shapes: build ## table of gradients, drift and SQNR at layers of 7B to 70B shape, at init and LLM-like weights (hours, 13 GB; ARGS=--write)
	@$(PY) benchmarks/numerics/true_shapes.py $(ARGS)

swiglu: build ## table of the noise of SwiGLU by each recipe, on torchao's data (ARGS=--write for the docs' page)
	@$(PY) benchmarks/numerics/swiglu.py $(ARGS)

outliers: build ## table of adversaries of one step: seen by health(), and overcome? (ARGS=--write for the docs' page)
	@$(PY) benchmarks/numerics/outliers.py $(ARGS)

switching: build ## table of the last 5 % of training in BF16 after FP8, 12 layers (ARGS=--write for the docs' page)
	@$(PY) benchmarks/numerics/switching.py $(ARGS)

digits: build ## table of a small classifier's accuracy under every preset, 5 seeds (ARGS=--write for the docs' page)
	@$(PY) benchmarks/numerics/digits.py $(ARGS)

ranks: build ## table, simulated: gradients of 2 to 64 ranks reduced in FP8, by each factor (ARGS=--write)
	@$(PY) benchmarks/numerics/ranks.py $(ARGS)

call: build ## time what a call costs beyond its kernels beside jax.jit's, by the leaves of its pytree (ARGS= for options)
	@$(PY) benchmarks/call.py $(ARGS)

drop-in: build ## write the page of what differs from jax.jit from the entries of its test
	@$(PY) test/python/drop_in.py --write docs/drop-in.md

op-types: build ## write the page of ops and the element types that compile, from the dialects' tests (minutes)
	@$(PY) test/python/op_types.py --write docs/op-types.md

messages: build ## table: exchanges of CPU ranks through shared memory by their bytes, latency, rate and bucket (ARGS= for options)
	@$(PY) benchmarks/messages.py $(ARGS)

kills: build ## kill ranks, then whole jobs, at 100 random moments each: none may hang or lose a checkpoint (minutes; ARGS= for options)
	@for victim in rank job; do PYTHONPATH=python:test/python SCALIFY_BUILD=$(CURDIR)/build \
	  .venv/bin/python test/python/checkpoint_kills.py out/kills --victim $$victim $(ARGS) || exit 1; done

hosts: build ## train on two hosts, simulated by network namespaces, over tcp and mpi; kill a rank of one (as root; ARGS=tcp for one)
	@integration/hosts/run.sh $(ARGS)

slurm: build ## train on two tasks of a Slurm on this machine, and after its SIGTERM (as root; needs slurm-wlm and munge)
	@integration/slurm/run.sh

matrix: build ## train 20 steps on 8 ranks, each mesh and format, and compare all bits with one process (minutes; ARGS=--write PAGE)
	@PYTHONPATH=python:test/python SCALIFY_BUILD=$(CURDIR)/build .venv/bin/python test/python/rank_matrix.py $(ARGS)

random: build ## run 10,000 random programs against jax.jit, their gradients and recipes too (one to two hours; ARGS= for options)
	@PYTHONPATH=python:test/python SCALIFY_BUILD=$(CURDIR)/build .venv/bin/python test/python/random_run.py $(ARGS)

mutated: build ## compile 100,000 damaged programs of the tests whole: none may crash or hang (hours; ARGS= for options)
	@PYTHONPATH=python:test/python SCALIFY_BUILD=$(CURDIR)/build .venv/bin/python test/python/mutated_run.py $(ARGS)

decoupling: build ## table of formats of the optimizer's variables, from a trained state (hours; goes on where it stopped; ARGS=--write)
	@$(PY) benchmarks/numerics/decoupling.py $(ARGS)

zoo: build ## put the programs of test/zoo to the bars and write docs/research/numerics.md (ARGS= for options)
	@$(PY) test/zoo/bars.py --recipe fp8,fp16 --keep benchmarks/results/zoo.jsonl --page docs/research/numerics.md $(ARGS)

priors: build ## leave out each prior and put the programs that move to the bars; writes docs/research/priors.md (ARGS= for options)
	@$(PY) test/zoo/priors.py --keep benchmarks/results/priors.jsonl --page docs/research/priors.md $(ARGS)

loops: build ## run training loops in public style by jax.jit and by ours, 30 steps each, and compare losses (minutes; ARGS= for options)
	@$(PY) test/loops/run.py $(ARGS)

compat: build ## run tests by jax 0.7.0 to 0.10.2, each in an environment below build/compat (ARGS= for versions)
	@.venv/bin/python scripts/compat.py $(ARGS)

fuzz: setup ## fuzz artefacts, safetensors files, messages between ranks and StableHLO text, ten minutes each (ARGS="-t SECONDS TARGET...")
	@scripts/fuzz.sh $(ARGS)

sanitize: setup ## build with sanitizers, and run lit and GoogleTest, and the threads' tests (an hour at first; ARGS=address or thread for one)
	@for one in $(or $(ARGS),thread address); do scripts/sanitize.sh $$one || exit 1; done

adversaries: build ## table of cases where one loss scale cannot win, 12 layers (ARGS=--write for the docs' page)
	@$(PY) benchmarks/numerics/adversaries.py $(ARGS)

attention: build ## table of formats of attention's dots, six kinds of attention (goes on where it stopped; ARGS=--write)
	@$(PY) benchmarks/numerics/attention.py $(ARGS)

gpt-memory: build ## table, simulated: memory of GPT-7B to 175B at FP8-LM's layouts, by arithmetic and a layer's plan
	@$(PY) benchmarks/numerics/gpt_memory.py $(ARGS)

kernel-bytes: build ## kernels of an 8B-shaped LLaMA layer for a GPU and the bytes they move, by the plan (ARGS=--write)
	@$(PY) benchmarks/kernel_bytes.py $(ARGS)

planner: build ## tables, simulated: published rows, layouts of LLaMA on H100, links that misbehave (ARGS=--write for the docs' page)
	@$(PY) benchmarks/planner.py $(ARGS)

links: build ## time a step of two ranks over links made slow or unsteady, overlapped and serial (ARGS=--write for the docs' page)
	@$(PY) benchmarks/links.py $(ARGS)

test-torch: build ## run the tests of scalify.torch in an environment with PyTorch, build/torch (ARGS= for pytest)
	@.venv/bin/python scripts/torch_environment.py test $(ARGS)

docs: setup ## build the site of the documentation, build/docs/site, with all links checked (ARGS=--serve)
	@.venv/bin/python scripts/site.py $(ARGS)

chart: docs ## draw the README's chart from the newest results of `make bench` in benchmarks/results
	@build/docs/env/bin/python benchmarks/chart.py \
	  "$$(ls benchmarks/results/suite-*.json | tail -n 1)" docs/images/speedup.svg

man: build ## write man pages and shell completion of the programs into build/share
	@scripts/man.sh

clean: ## remove what builds and runs wrote (not .venv)
	@rm -rf build build-dev build-asan build-tsan build-fuzz out
	@echo "scalify: removed build, build-dev, build-asan, build-tsan, build-fuzz, out"
