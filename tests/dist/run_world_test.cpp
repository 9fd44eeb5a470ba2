#ifdef ETNA_WIKITEXT

#include <gmock/gmock.h>

#include "run_world.h"

// `etna run` with a model that is divided over processes, as a person starts it.
namespace etna {
namespace {

using testing::AllOf, testing::HasSubstr, testing::Not;

TEST_F(RunWorld, WritesTheTextOfOneProcess) {
  for (const char* sampling : {"--temperature 0", "--temperature 0.8", "--temperature 0 --guesses 3"}) {
    const std::string wanted = printed(run(sampling));
    ASSERT_THAT(wanted, HasSubstr("the river"));
    EXPECT_EQ(printed(run(sampling) + "--gpus 2"), wanted) << sampling;
  }
  const std::string wanted = printed(run("--temperature 0"));
  EXPECT_EQ(printed("launch -n 2 -- " ETNA_PROGRAM " " + run("--temperature 0")), wanted);
  EXPECT_EQ(printed(run("--temperature 0") + "--gpus 1"), wanted);
}

TEST_F(RunWorld, SaysThingsOnce) {
  const Result result = etna(run() + "--gpus 2");
  EXPECT_EQ(result.code, 0) << result.output;
  for (const char* words : {"device: ", "the river", "loaded in "}) {
    const std::size_t at = result.output.find(words);
    ASSERT_NE(at, std::string::npos) << result.output;
    EXPECT_EQ(result.output.find(words, at + 1), std::string::npos) << result.output;
  }
}

TEST_F(RunWorld, ReadsThePromptOfRankZero) {
  const std::string options = "run -m " + model() + " --device cpu --cache f32 -n 20 --temperature 0 ";
  folder_.write("prompt", "a river.\n");
  const std::string input = "< '" + (folder_ / "prompt").string() + "' ";
  const std::string wanted = printed(options + input);
  ASSERT_THAT(wanted, HasSubstr("a river."));
  EXPECT_EQ(printed(options + "--gpus 2 " + input), wanted);
}

TEST_F(RunWorld, ErrorsAreSaidOnceWithTheirExitCode) {
  const Result missing = etna("run -m /nowhere.gguf --device cpu --prompt a --gpus 2");
  EXPECT_EQ(missing.code, 4) << missing.output;
  EXPECT_THAT(missing.output, HasSubstr("/nowhere.gguf: "));
  EXPECT_EQ(missing.output.find("/nowhere.gguf: "), missing.output.rfind("/nowhere.gguf: ")) << missing.output;
  EXPECT_THAT(missing.output, Not(HasSubstr("mpirun")));

  const Result many = etna(run() + "--gpus 3");
  EXPECT_EQ(many.code, 4) << many.output;
  EXPECT_THAT(many.output, HasSubstr("cannot be divided over 3 ranks; it can over 2, 4"));

  const Result others = etna("launch -n 2 -- " ETNA_PROGRAM " " + run("--gpus 4"));
  EXPECT_EQ(others.code, 2) << others.output;
  EXPECT_THAT(others.output, HasSubstr("--gpus 4 in a group of 2 processes; leave it out"));

  const Result none = etna(run() + "--gpus 0");
  EXPECT_EQ(none.code, 2) << none.output;

  const Result layers = etna(run("--gpu-layers 1") + "--gpus 2");
  EXPECT_EQ(layers.code, 2) << layers.output;
  EXPECT_THAT(layers.output, HasSubstr("--gpu-layers 1: on the CPU no layer is on a GPU"));

  const Result experts = etna(run("--experts cpu") + "--gpus 2");
  EXPECT_EQ(experts.code, 2) << experts.output;
  EXPECT_THAT(experts.output, HasSubstr("--experts cpu is for one GPU"));

  for (const char* wrong : {"-1", "1025", "two", "1.5", "nan", ""}) {
    const Result number = etna(run() + "--gpus '" + wrong + "'");
    EXPECT_EQ(number.code, 2) << number.output;
    EXPECT_THAT(number.output, HasSubstr("--gpus")) << wrong;
  }

  const Result adapter = etna(run("--adapter " + model()) + "--gpus 2");
  EXPECT_NE(adapter.code, 0);
  EXPECT_THAT(adapter.output, HasSubstr("an adapter's weights cannot be divided over processes"));
}

TEST_F(RunWorld, NeedsADeviceForEachProcess) {
  const std::string options = "run -m " + model() + " -n 4 --prompt a --gpus 2 ";
  const Result one = etna(options + "--device fake", "2>&1", "ETNA_STRICT=0 ETNA_FAKE_DEVICE=memory=1GiB");
  EXPECT_EQ(one.code, 3) << one.output;
  EXPECT_THAT(one.output, HasSubstr("2 processes run on this computer, which has 1 GPU for them"));
  EXPECT_THAT(one.output, Not(HasSubstr("rank")));
  const std::string rest = " -m " + model() + " --gpus 2 --device fake ";
  for (const std::string command : {"chat", "serve --port 0", "bench", "perplexity -f /nowhere"}) {
    const Result other = etna(command + rest, "2>&1", "ETNA_STRICT=0 ETNA_FAKE_DEVICE=memory=1GiB");
    EXPECT_EQ(other.code, 3) << command << other.output;
    EXPECT_THAT(other.output, HasSubstr("2 processes run on this computer, which has 1 GPU for them")) << command;
  }
  const Result shared = etna(options + "--device fake:0", "2>&1", "ETNA_STRICT=0 ETNA_FAKE_DEVICE=memory=1GiB");
  EXPECT_EQ(shared.code, 0) << shared.output;
}

TEST_F(RunWorld, CtrlCEndsAllProcesses) {
  const Result result = run_program("/usr/bin/timeout",
                                    "--foreground --preserve-status -s INT 3 " ETNA_PROGRAM " run -m " + model() +
                                        " --device cpu -n 100000000 --endless --logit-bias 2=-inf -p a --gpus 2",
                                    "-u ETNA_DEVICE -u ETNA_MEET -u ETNA_DIST");
  EXPECT_EQ(result.code, 130);
  EXPECT_THAT(result.output, Not(HasSubstr("the other ranks end, too")));
}

TEST_F(RunWorld, LayersThatDoNotFitStayOnTheCpu) {
  const std::string wanted = printed(run("--temperature 0"));
  const std::string options = "run -m " + model() +
                              " --device fake:0 --cache f32 -n 40 --temperature 0 --prompt 'the river' --gpus 2 "
                              "--gpu-layers 1";
  const Result result = etna(options, "2>/dev/null", "ETNA_STRICT=0 ETNA_FAKE_DEVICE=memory=1GiB");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.output, wanted);
}

}  // namespace
}  // namespace etna

#endif
