#include <etna/tensor/io/torch_file.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/nn/nn.h>
#include <etna/tensor/io/gguf.h>
#include <etna/tensor/io/internal/pickle.h>
#include <etna/tensor/io/safetensors.h>
#include <etna/tensor/ops.h>

#include "runner/libraries.h"
#include "tensor/file_bytes.h"

// tests/torch/make_pt.py wrote the files with torch.save().
namespace etna {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Kind = TorchValue::Kind;

const std::string kTorchFileFiles = ETNA_SOURCE_DIR "/tests/torch/files/";

TEST(TorchFile, HoldsEveryDtype) {
  if (!kHasZip) GTEST_SKIP() << "this build has no libzip";
  const auto all = load_torch(kTorchFileFiles + "dtypes.pt");
  ASSERT_EQ(all.size(), std::size(kAllDTypes));
  for (DType t : kAllDTypes) {
    const Tensor& x = all.at(std::string(name(t)));
    EXPECT_EQ(x.dtype(), t);
    EXPECT_EQ(x.to_vector<double>(), arange(6).to(t).to_vector<double>()) << name(t);
  }
}

TEST(TorchFile, ViewsShareTheirStorageAndKeepTheirStrides) {
  if (!kHasZip) GTEST_SKIP() << "this build has no libzip";
  auto all = load_torch(kTorchFileFiles + "views.pt");
  const Tensor base = arange(24.0);
  const auto expect = [&](const char* name, const Tensor& want) {
    EXPECT_EQ(all.at(name).shape(), want.shape()) << name;
    EXPECT_EQ(all.at(name).to_vector<float>(), want.to_vector<float>()) << name;
  };
  expect("matrix", base.view({4, 6}));
  expect("transposed", base.view({4, 6}).t());
  expect("column", base.view({4, 6}).select(1, 2));
  expect("steps", base.slice(0, 3, 24, 5));
  expect("expanded", base.slice(0, 0, 3).view({3, 1}).expand({3, 4}));
  expect("number", scalar(2.5));
  expect("empty", empty({0, 4}));
  EXPECT_EQ(all.at("transposed").strides(), Strides({1, 6}));
  EXPECT_EQ(all.at("column").storage(), all.at("base").storage());
  all.at("base").fill_(7);
  EXPECT_EQ(all.at("column").to_vector<float>(), std::vector<float>(4, 7));
}

TEST(TorchFile, AStateDictLoadsIntoAModule) {
  if (!kHasZip) GTEST_SKIP() << "this build has no libzip";
  nn::Linear first(3, 4), last(4, 2);
  auto all = load_torch(kTorchFileFiles + "state_dict.pt");
  EXPECT_EQ(all.at("1.num_batches_tracked").item<int>(), 1);
  first.load_state_dict({{"weight", all.at("0.weight")}, {"bias", all.at("0.bias")}});
  EXPECT_EQ(first.state_dict().at("weight").to_vector<float>(), (arange(12.0) / 8).to_vector<float>());
  EXPECT_EQ(all.at("3.weight").shape(), Shape({2, 4}));
}

TEST(TorchFile, AWholeCheckpointIsATree) {
  if (!kHasZip) GTEST_SKIP() << "this build has no libzip";
  const TorchValue all = read_torch(kTorchFileFiles + "checkpoint.pth");
  EXPECT_EQ(all.at("epoch").integer, 7);
  EXPECT_EQ(all.at("loss").number, 0.125);
  EXPECT_EQ(all.at("best").kind, Kind::none);
  EXPECT_EQ(all.at("done").kind, Kind::boolean);
  EXPECT_FALSE(all.at("done").boolean);
  EXPECT_EQ(all.at("name").string, "fünf");
  EXPECT_EQ(all.at("sizes").items.at(1).integer, 3);
  EXPECT_EQ(all.at("pair").kind, Kind::tuple);
  EXPECT_EQ(all.at("pair").items.at(1).kind, Kind::list);
  EXPECT_EQ(all.at("big").integer, std::int64_t{1} << 40);
  EXPECT_EQ(all.at("negative").integer, -3);
  EXPECT_EQ(all.at("long").integer, -(std::int64_t{1} << 62));
  const TorchValue& group = all.at("optimizer").at("param_groups").items.at(0);
  EXPECT_EQ(group.at("lr").number, 0.25);
  EXPECT_EQ(group.at("params").items.size(), 6u);
  const auto tensors = all.tensors();
  EXPECT_EQ(tensors.at("model.0.weight").shape(), Shape({4, 3}));
  EXPECT_EQ(tensors.at("optimizer.state.0.exp_avg").shape(), Shape({4, 3}));
  EXPECT_THAT([&] { (void)all.at("weights"); }, ThrowsMessage<FormatError>(HasSubstr("its keys are model optimizer")));
}

TEST(TorchFile, ParametersAndOtherProtocolsAreRead) {
  if (!kHasZip) GTEST_SKIP() << "this build has no libzip";
  const auto parameters = load_torch(kTorchFileFiles + "parameter.pt");
  EXPECT_EQ(parameters.at("0").to_vector<float>(), std::vector<float>(2, 1));
  const TorchValue four = read_torch(kTorchFileFiles + "protocol4.pt");
  EXPECT_EQ(four.at("a").tensor.to_vector<int>(), std::vector<int>({0, 1, 2}));
  EXPECT_EQ(four.at("b").string, std::string(300, 'x'));
}

TEST(TorchFile, NothingIsExecutedAndWhatIsRefusedIsNamed) {
  if (!kHasZip) GTEST_SKIP() << "this build has no libzip";
  const auto expect = [](const char* file, const char* text) {
    EXPECT_THAT([&] { load_torch(kTorchFileFiles + file); }, ThrowsMessage<FormatError>(HasSubstr(text))) << file;
  };
  std::filesystem::remove("/tmp/etna_pickle_was_executed");
  expect("attack.pt", "contains a 'posix.system'");
  EXPECT_FALSE(std::filesystem::exists("/tmp/etna_pickle_was_executed"));
  expect("module.pt", "torch.nn.modules.container.Sequential");
  expect("complex.pt", "torch.ComplexFloatStorage");
  expect("short.pt", "torch.ShortStorage");
  expect("random.pt", "contains a 'random.Random'");
  expect("legacy.pt", "before PyTorch 1.6");
  expect("script.pt", "TorchScript");
  expect("arrays.npz", "wanted exactly one entry data.pkl");
  expect("u64.npy", "not a ZIP archive");
  expect("missing.pt", "cannot be opened");
}

/// Runs a pickle whose only storage, "0", has ten f32.
TorchValue run(const std::string& code) {
  const auto load = [](DType, const std::string&, std::int64_t) { return arange(10.0); };
  return pickle::Machine(std::as_bytes(std::span(code.data(), code.size())), load).run();
}

TEST(Pickle, ViewsStayInTheirStorage) {
  const auto code = [](std::string offset, std::string sizes, std::string strides) {
    std::string text("ctorch._utils\n_rebuild_tensor_v2\n((");
    const auto word = [](std::string w) { return std::string("\x8c") + static_cast<char>(w.size()) + w; };
    text += word("storage") + "ctorch\nFloatStorage\n" + word("0") + word("cpu") + "K\ntQ";
    return text + offset + sizes + strides + "\x89}tR.";
  };
  const std::string huge = "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f";
  EXPECT_EQ(run(code("K\1", "(K\3K\3t", "(K\3K\1t")).tensor.to_vector<int>(),
            std::vector<int>({1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(run(code("K\n", "(K" + std::string(1, '\0') + "t", "(K\1t")).tensor.numel(), 0);
  for (const auto& bad :
       {code("K\2", "(K\3K\3t", "(K\3K\1t"), code("K\n", "(K\1t", "(K\1t"), code("K\n", ")", ")"),
        code("J\xff\xff\xff\xff", "(K\1t", "(K\1t"), code("K\1", "(K\3t", "(K\3K\1t"),
        code("K\1", "(" + huge + "t", "(K\2t"), code("K\1", "(K\2t", "(" + huge + "t"), code(huge, "(K\1t", "(K\1t"),
        code("K\1", "(" + huge + huge + "t", "(K\1K\1t"), code("K\1", "(J\xff\xff\xff\xfft", "(K\1t"),
        code("N", "(K\1t", "(K\1t"), code("K\1", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t", "(K\1K\1K\1K\1K\1K\1K\1K\1K\1t")})
    EXPECT_THROW(run(bad), FormatError);
}

TEST(MappedFile, NamesWhatAnEmptyPathShouldBe) {
  const char* wanted = "cannot be read: its path is empty";
  EXPECT_THAT([] { load_gguf(""); }, ThrowsMessage<FormatError>(HasSubstr(wanted)));
  EXPECT_THAT([] { load_safetensors(""); }, ThrowsMessage<FormatError>(HasSubstr(wanted)));
}

/// As torch.initial_seed() gives them. LONG1 has a length and two's complement.
TEST(Pickle, IntegersBeyond64BitsAreTheNearestNumber) {
  const auto value = [](const std::string& digits) {
    const std::string code = "\x80\x02\x8a" + std::string(1, static_cast<char>(digits.size())) + digits + ".";
    return pickle::Machine(std::as_bytes(std::span(code.data(), code.size())), {}).run();
  };
  EXPECT_EQ(value(std::string(8, '\xff') + std::string(1, '\0')).number, 0x1p64);
  EXPECT_EQ(value(std::string(8, '\0') + "\xff").number, -0x1p64);
  EXPECT_EQ(value(std::string(7, '\0') + "\x40" + std::string(3, '\0')).integer, std::int64_t{1} << 62);
  EXPECT_EQ(value(std::string(12, '\xff')).integer, -1);
  EXPECT_THROW(value(std::string(200, '\x7f')), FormatError);
}

TEST(Pickle, CyclesRepeatsAndEmptyStacksAreRefused) {
  EXPECT_THAT([] { run("]q\1h\1a."); }, ThrowsMessage<FormatError>(HasSubstr("nests values endlessly")));
  // Every list holds the one before it twice.
  std::string laughs = "]q\1";
  for (int i = 0; i < 60; ++i) laughs += "](h\1h\1eq\1";
  EXPECT_THAT([&] { run(laughs + "."); }, ThrowsMessage<FormatError>(HasSubstr("ends with 61 values")));
  std::string nested = "N";
  for (int i = 0; i < 60; ++i) nested += "q\1h\1\x86";
  EXPECT_THAT([&] { run(nested + "."); }, ThrowsMessage<FormatError>(HasSubstr("repeats them too often")));
  for (const char* code : {".",         "a.",   "]a.",  "N(t",   "(.",    "N(N.",  "u.",
                           "}(Nu.",     "R.",   "NNR.", "Q.",    "NQ.",   "h\1.",  "q\1.",
                           "b.",        "NNb.", "0.",   "\x93.", "\x87.", "]NNs.", "X\xff\xff\xff\xff.",
                           "\x8a\xff.", "i",    "o."})
    EXPECT_THROW(run(code), FormatError) << code;
}

TEST(TorchFile, SurvivesDamage) {
  for (const char* file : {"dtypes.pt", "views.pt", "checkpoint.pth", "protocol4.pt"})
    expect_safe_on_damage(bytes_of(kTorchFileFiles + file), [](const auto& path) { load_torch(path); });
  // The archive's checksums catch nearly all of that, so damage the pickle itself too.
  const std::string code =
      "}(\x8c\1a]q\1(K\1K\2e\x8c\1"
      "bh\1u.";
  std::mt19937 random(3);
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = code;
    for (unsigned n = random() % 3 + 1; n > 0; --n) bytes[random() % bytes.size()] = static_cast<char>(random());
    try {
      run(bytes);
    } catch (const FormatError&) {}
  }
}

}  // namespace
}  // namespace etna
