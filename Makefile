# The front door. The work is done by CMake, CTest and the scripts in tools/.
#
#   make            library, command (build/lockstep) and examples (build/examples/)
#   make cuda       the same, and the plug-in for NVIDIA GPUs must be among it
#   make demo       draw pets, train a network on them in two processes, predict
#   make test       build with everything checked, run all tests; ARGS="-R conv" only those
#   make test-tpu   compile programs for TPUs, with libtpu, whose licence is Google's: you accept it
#   make bench      measure against this machine's peak and against other libraries
#   make asan tsan  all test programs under the address + undefined, or the thread sanitizer
#   make fuzz       look for inputs that crash a parser: SECONDS=20 each (clang, libFuzzer)
#   make format     lay out the sources      make tidy     static analysis
#   make symbols    accept a changed API     make docs     regenerate what comes from tables
#   make deb        Debian packages in build/deb/, checked by lintian
#   make install    PREFIX=/usr/local        make clean    remove build/

BUILD  ?= build
PREFIX ?= /usr/local

# $(call configured,FOLDER,OPTIONS): a build folder that is ready to build in
configured = test -f $(1)/build.ninja || cmake -S . -B $(1) -G Ninja $(2)

all:
	@tools/bootstrap.sh build
	@$(call configured,$(BUILD))
	@cmake --build $(BUILD) --target product

cuda:
	@tools/bootstrap.sh build
	@cmake -S . -B $(BUILD) -G Ninja -DLOCKSTEP_WITH_CUDA=ON
	@cmake --build $(BUILD) --target product

demo: all
	@tools/demo.sh $(BUILD)

test:
	@tools/bootstrap.sh build test
	@tools/intel_mpi.sh $(BUILD)/intel_mpi || test $$? = 77
	@tools/hf_tokenizers.sh $(BUILD)/hf_tokenizers || test $$? = 77
	@tools/jupyter.sh $(BUILD)/jupyter || test $$? = 77
	@tools/xla_library.sh $(BUILD)/xla_library || test $$? = 77
	@tools/perfetto.sh $(BUILD)/perfetto || test $$? = 77
	@$(call configured,$(BUILD))
	@cmake --build $(BUILD)
	@tools/run_tests.sh $(BUILD) $(ARGS)

# libtpu is for x86-64: elsewhere its programs and ours run under qemu, which takes hours. TOPOLOGIES="v5e:2x2" only those
test-tpu:
	@tools/bootstrap.sh build
	@tools/libtpu.sh $(BUILD)/libtpu
	@$(call configured,$(TPU_BUILD),$(TPU_OPTIONS))
	@cmake --build $(TPU_BUILD) --target lockstep_command device-xla pupil test_xla_walk
	@EMULATOR="$(TPU_EMULATOR)" tests/xla/tpu.sh $(TPU_BUILD) $(CURDIR)/$(BUILD)/libtpu/libtpu/libtpu.so $(TOPOLOGIES)

ifeq ($(shell uname -m),x86_64)
TPU_BUILD = $(BUILD)
else
TPU_BUILD = $(BUILD)/cross
TPU_OPTIONS = -DCMAKE_TOOLCHAIN_FILE=cmake/x86_64.cmake
TPU_EMULATOR = qemu-x86_64 -cpu max -L /usr/x86_64-linux-gnu
endif

bench: all
	@tools/bootstrap.sh bench
	@cmake --build $(BUILD) --target lockstep_bench hosts
	@python3 bench/run.py $(BUILD) $(BENCH)

asan:
	@tools/bootstrap.sh build
	@$(call configured,$(BUILD)/asan,-DLOCKSTEP_SANITIZE=address$(,)undefined)
	@cmake --build $(BUILD)/asan
	@tools/run_tests.sh $(BUILD)/asan $(ARGS)

tsan:
	@tools/bootstrap.sh build
	@$(call configured,$(BUILD)/tsan,-DLOCKSTEP_SANITIZE=thread)
	@cmake --build $(BUILD)/tsan
	@tools/run_tests.sh $(BUILD)/tsan $(ARGS)

fuzz:
	@tools/bootstrap.sh build fuzz
	@tests/fuzz/run.sh $(or $(SECONDS),20)

format:
	@tools/bootstrap.sh format
	@tools/format.sh

tidy: all
	@tools/bootstrap.sh tidy
	@tools/tidy.sh $(BUILD)

symbols: all
	@tools/check_symbols.sh $(BUILD)/liblockstep.so --update

docs:
	@tools/gen_ops_doc.sh > docs/ops.md

install: all
	@cmake --install $(BUILD) --prefix $(PREFIX)

deb:
	@tools/bootstrap.sh build deb
	@tools/deb.sh $(BUILD)/deb

clean:
	@rm -rf $(BUILD)

, := ,
.PHONY: all cuda demo test test-tpu bench asan tsan fuzz format tidy symbols docs install deb clean
