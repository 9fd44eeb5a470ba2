#include <etna/train/receipt.h>

#include <filesystem>
#include <fstream>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/device/error.h>
#include <etna/device/output_file.h>
#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops.h>
#include <etna/train/internal/read_bytes.h>
#include <etna/train/internal/receipt_json.h>
#include <etna/train/internal/sha256.h>

#include "data/temporary_folder.h"

namespace etna::training {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

/// False in a build without libcrypto.
bool makes_receipts() {
  try {
    Sha256();
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// A run that reads two files and computes a little.
class ReceiptOfARun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!makes_receipts()) GTEST_SKIP() << "this build has no libcrypto";
    write("model.bin", "weights");
    write("text.txt", "a text");
  }
  void write(const std::string& name, const std::string& text) const { io::write_file(folder_ / name, text); }

  template <typename Work>
  std::string receipt(const Work& work, Device device = kCPU) const {
    Receipt made({.name = "test", .version = "1.2", .command = {"test", "--lr", "0.1"}});
    made.device(device.str(), device);
    made.seed("weights", 18446744073709551615u);
    made.number("tokens_per_second", 12.5);
    made.number("not_finite", 0.0 / 0.0);
    made.file("model", folder_ / "model.bin");
    made.file("text", folder_ / "text.txt");
    work();
    return made.text();
  }
  std::string plain() const {
    return receipt([] { exp(ones({4})); });
  }

  TemporaryFolder folder_;
};

ReceiptJson with_hash(ReceiptJson json) {
  json[kHashKey] = content_hash_of(json);
  return json;
}

TEST(Sha256Digits, AreThoseOfTheStandard) {
  if (!makes_receipts()) GTEST_SKIP() << "this build has no libcrypto";
  Sha256 hash;
  hash.add("a");
  hash.add("bc");
  EXPECT_EQ(hash.digits(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256().digits(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_F(ReceiptOfARun, StatesWhatRan) {
  const std::string text = receipt([] {
    exp(ones({4}));
    exp(ones({4}));
  });
  const ReceiptJson json = ReceiptJson::parse(text);
  EXPECT_EQ(json["compute_path"], "real");
  EXPECT_EQ(json["program"]["version"], "1.2");
  EXPECT_EQ(json["command"], (std::vector<std::string>{"test", "--lr", "0.1"}));
  EXPECT_EQ(json["device"]["requested"], "cpu");
  EXPECT_EQ(json["device"]["requested_by"], "caller");
  EXPECT_EQ(json["device"]["selected"]["device"], "cpu");
  EXPECT_FALSE(json["device"]["detected"].empty());
  std::uint64_t runs = 0;
  for (const auto& row : json["kernels"])
    if (row["kernel"] == "exp") runs += row["eager"].get<std::uint64_t>();
  EXPECT_EQ(runs, 2u);
  EXPECT_EQ(json["seeds"]["weights"], 18446744073709551615u);
  EXPECT_EQ(json["numbers"]["tokens_per_second"], 12.5);
  EXPECT_TRUE(json["numbers"]["not_finite"].is_null());
  EXPECT_EQ(json["files"][0]["role"], "model");
  EXPECT_EQ(json["files"][0]["bytes"], 7);
  EXPECT_GT(json["memory"]["process_peak_bytes"], 1 << 20);
  EXPECT_GT(json["machine"]["threads"], 0);
  EXPECT_EQ(json.begin().key(), "schema");
  EXPECT_THAT(Receipt::marks(), ElementsAre("\"schema\": \"etna.receipt/1\""));
  EXPECT_THAT(text.substr(0, 4096), HasSubstr(Receipt::marks()[0]));

  const ReceiptCheck seen = check_receipt(text, {.version = "1.2"});
  EXPECT_THAT(seen.mismatches, IsEmpty());
  EXPECT_THAT(seen.notes, IsEmpty());
  EXPECT_EQ(seen.files, 2u);
  EXPECT_THAT(check_receipt(text, {.version = "1.3"}).notes, ElementsAre("version: 1.2 then, 1.3 now"));
  EXPECT_THAT(receipt_summary(text), HasSubstr("compute path  real"));
}

TEST_F(ReceiptOfARun, BlanksDoNotCount) {
  EXPECT_THAT(check_receipt(ReceiptJson::parse(plain()).dump()).mismatches, IsEmpty());
}

TEST_F(ReceiptOfARun, AForcedReferenceShows) {
  const std::string text = receipt([] {
    const Override compose(&Overrides::compose_ops, true);
    softmax(ones({2, 3}), 1);
  });
  const ReceiptJson json = ReceiptJson::parse(text);
  EXPECT_EQ(json["compute_path"], "reference");
  EXPECT_EQ(json["references"][0]["op"], "softmax");
  EXPECT_EQ(json["totals"]["references"], 1);
  EXPECT_THAT(check_receipt(text).mismatches, IsEmpty());
  EXPECT_THAT(receipt_summary(text), HasSubstr("softmax on cpu"));
}

/// The Vulkan device, or none.
std::optional<Device> vulkan_device() {
  for (const AdapterInfo& adapter : adapters())
    if (adapter.device.is_vulkan() && adapter.rejected.empty()) return adapter.device;
  return std::nullopt;
}

TEST_F(ReceiptOfARun, AForcedFallbackShows) {
  const std::optional<Device> gpu = vulkan_device();
  if (!gpu) GTEST_SKIP() << "no usable Vulkan device";
  const bool before = strict();
  set_strict(false);
  const std::string text = receipt([&] { linalg::eigh(eye(4, 4, {f32, *gpu})); }, *gpu);
  set_strict(before);
  const ReceiptJson json = ReceiptJson::parse(text);
  EXPECT_EQ(json["compute_path"], "fallback");
  EXPECT_EQ(json["fallbacks"][0]["op"], "eigh");
  EXPECT_EQ(json["fallbacks"][0]["device"], gpu->str());
  EXPECT_THAT(check_receipt(text).mismatches, IsEmpty());
}

TEST_F(ReceiptOfARun, ASoftwareRasterizerIsSaid) {
  const std::optional<Device> gpu = vulkan_device();
  if (!gpu) GTEST_SKIP() << "no usable Vulkan device";
  const Tensor x = ones({4}, {f32, *gpu});
  const ReceiptJson json = ReceiptJson::parse(receipt([&] { exp(x).to_vector<float>(); }, *gpu));
  const bool software = json["device"]["selected"]["kind"] == "software";
  EXPECT_EQ(json["device"]["selected"]["software"], software);
  EXPECT_EQ(json["compute_path"], software ? "software" : "real");
  EXPECT_FALSE(json["device"]["selected"]["driver"].get<std::string>().empty());
  EXPECT_GT(json["transfers"]["device_to_host_bytes"], 0);
  const ReceiptJson idle = ReceiptJson::parse(receipt([] {}, *gpu));
  EXPECT_EQ(idle["compute_path"], "none");
}

TEST_F(ReceiptOfARun, CountsBetweenTwoPointsAreAnObjectOfTheSameKeys) {
  CountKernels counting;
  const KernelCounts before = counting.counts();
  exp(ones({4}));
  const ReceiptJson json = ReceiptJson::parse(json_text(difference(counting.counts(), before), kCPU));
  EXPECT_EQ(json["compute_path"], "real");
  EXPECT_GE(json["totals"]["eager"], 1);
  EXPECT_TRUE(json["fallbacks"].empty());
}

TEST_F(ReceiptOfARun, APartHasItsOwnCountsAndNumbersAndIsVerified) {
  Receipt whole({.name = "test", .version = "1.2", .command = {"test"}});
  whole.device("cpu", kCPU);
  whole.number("requests", 2);
  whole.file("model", folder_ / "model.bin");
  whole.file("adapter a", folder_ / "text.txt");
  whole.hash_now();
  exp(ones({4}));
  const ReceiptMoment begin = whole.moment();
  log(ones({4}));
  ReceiptPart part = whole.part_since(begin);
  exp(ones({4}));
  part.numbers = {{"tokens_written", 3}};
  part.seeds = {{"sampling", 5}};
  part.request = {{"id", "request \xff"}};
  part.other_files = {"adapter a"};
  const std::string text = whole.text(part);
  const ReceiptJson json = ReceiptJson::parse(text);
  std::set<std::string> kernels;
  for (const auto& row : json["kernels"]) kernels.insert(row["kernel"].get<std::string>());
  EXPECT_EQ(kernels.count("log"), 1u);
  EXPECT_EQ(kernels.count("exp"), 0u) << "that ran before and after";
  EXPECT_EQ(json["numbers"], (ReceiptJson{{"tokens_written", 3}}));
  EXPECT_EQ(json["seeds"]["sampling"], 5);
  EXPECT_EQ(json["request"]["id"], "request \uFFFD");
  ASSERT_EQ(json["files"].size(), 1u);
  EXPECT_EQ(json["files"][0]["role"], "model");
  EXPECT_THAT(check_receipt(text).mismatches, IsEmpty());
  EXPECT_EQ(whole.text(part), text);

  // Of the whole, what was hashed before.
  const ReceiptJson all = ReceiptJson::parse(whole.text());
  EXPECT_EQ(all["numbers"]["requests"], 2);
  EXPECT_EQ(all["files"].size(), 2u);
  write("model.bin", "weights, but longer");
  const ReceiptJson later = ReceiptJson::parse(whole.text());
  EXPECT_EQ(later["files"][0]["sha256"], all["files"][0]["sha256"]);
  EXPECT_EQ(later["files"][0]["changed_during_run"], true);
}

TEST_F(ReceiptOfARun, BeginsOnlyWhereItMayBeWritten) {
  EXPECT_EQ(begin_receipt({}, {}), nullptr);
  EXPECT_THROW(begin_receipt(folder_ / "text.txt", {.name = "test", .version = "1", .command = {}}), io::OutputExists);
  const auto receipt =
      begin_receipt(folder_ / "receipt.json", {.name = "test", .version = "1", .command = {}}, {folder_ / "model.bin"});
  ASSERT_NE(receipt, nullptr);
  receipt->write(folder_ / "receipt.json");
  EXPECT_NE(begin_receipt(folder_ / "receipt.json", {.name = "test", .version = "1", .command = {}}), nullptr)
      << "an earlier one is replaced";
  EXPECT_THROW(begin_receipt(folder_ / "model.bin", {.name = "test", .version = "1", .command = {}},
                             {folder_ / "model.bin"}, true),
               io::OutputExists);
}

TEST_F(ReceiptOfARun, CheckFindsAChangedByteInAFile) {
  const std::string text = plain();
  write("model.bin", "weightz");
  EXPECT_THAT(check_receipt(text).mismatches, ElementsAre(HasSubstr("its SHA-256 is")));
  write("model.bin", "weights!");
  EXPECT_THAT(check_receipt(text).mismatches, ElementsAre(HasSubstr("it has 8 bytes, the receipt says 7")));
  fs::remove(folder_ / "model.bin");
  EXPECT_THAT(check_receipt(text).mismatches, ElementsAre(HasSubstr("model")));
  fs::create_directory(folder_ / "model.bin");
  EXPECT_THAT(check_receipt(text).mismatches, ElementsAre(HasSubstr("is not a file")));
}

TEST_F(ReceiptOfARun, CheckFindsMovedFilesBelowARoot) {
  const std::string text = plain();
  fs::create_directory(folder_ / "moved");
  for (const char* name : {"model.bin", "text.txt"}) fs::rename(folder_ / name, folder_ / "moved" / name);
  EXPECT_EQ(check_receipt(text).mismatches.size(), 2u);
  const ReceiptCheck seen = check_receipt(text, {.root = folder_ / "moved"});
  EXPECT_THAT(seen.mismatches, IsEmpty());
  EXPECT_EQ(seen.files, 2u);
}

TEST_F(ReceiptOfARun, AFileThatChangesMeanwhileIsMarked) {
  const std::string text = receipt([&] { write("text.txt", "another text"); });
  EXPECT_THAT(check_receipt(text).mismatches, ElementsAre(HasSubstr("was changed while the run read it")));
}

TEST_F(ReceiptOfARun, CheckFindsAnyChangedByteOfTheReceipt) {
  const std::string text = plain();
  const ReceiptJson before = ReceiptJson::parse(text);
  for (std::size_t at = 0; at < text.size(); at += 5) {
    std::string changed = text;
    changed[at] ^= 1;
    try {
      if (!check_receipt(changed).mismatches.empty()) continue;
      EXPECT_EQ(ReceiptJson::parse(changed), before) << "byte " << at << ": " << text.substr(at, 20);
    } catch (const FormatError&) {
      // No receipt any more.
    }
  }
}

TEST_F(ReceiptOfARun, CheckFindsTotalsThatContradictTheRows) {
  ReceiptJson json = ReceiptJson::parse(receipt([] {
    const Override compose(&Overrides::compose_ops, true);
    softmax(ones({2, 3}), 1);
  }));
  json["compute_path"] = "real";
  EXPECT_THAT(check_receipt(with_hash(json).dump()).mismatches,
              ElementsAre("compute_path: is 'real', the counts say 'reference'"));
  json["compute_path"] = "reference";
  json["totals"]["eager"] = 1'000'000;
  EXPECT_THAT(check_receipt(with_hash(json).dump()).mismatches, ElementsAre(HasSubstr("totals: eager is 1000000")));
}

TEST_F(ReceiptOfARun, WhatIsNoReceiptIsSaid) {
  const std::string text = plain();
  const auto refused = [](const std::string& what, const std::string& why) {
    EXPECT_THAT([&] { check_receipt(what); }, ThrowsMessage<FormatError>(HasSubstr(why))) << what.substr(0, 60);
    EXPECT_THROW(receipt_summary(what), FormatError) << what.substr(0, 60);
  };
  refused("", "it is no JSON");
  refused("[]", "no object");
  refused("{}", "no \"schema\"");
  refused(R"({"schema": 1})", "no \"schema\"");
  refused(R"({"schema": "etna.receipt/99"})", "its schema is 'etna.receipt/99'");
  refused(R"({"schema": "etna.receipt/1"})", "program is missing");
  refused(std::string(100'000, '['), "nested");
  refused(std::string("\xff\xfe\0{", 4), "it is no JSON");
  for (std::size_t end = 0; end < text.size() - 2; end += 97) refused(text.substr(0, end), "it is no JSON");
  const std::string twice = "{\"compute_path\": \"real\"," + text.substr(1);
  refused(twice, "two fields 'compute_path'");
}

TEST_F(ReceiptOfARun, FieldsOfOtherTypesAreSaidAndNeverCrash) {
  const ReceiptJson json = ReceiptJson::parse(plain());
  const std::vector<ReceiptJson> others = {nullptr,
                                           -1,
                                           1.5,
                                           "x",
                                           true,
                                           ReceiptJson::array({1, nullptr}),
                                           ReceiptJson::object({{"a", 1}}),
                                           18446744073709551615u};
  const ReceiptJson flat = json.flatten();
  for (const auto& [pointer, value] : flat.items()) {
    for (const ReceiptJson& other : others) {
      ReceiptJson changed = json;
      changed[ReceiptJson::json_pointer(pointer)] = other;
      const std::string text = with_hash(changed).dump();
      try {
        check_receipt(text);
      } catch (const FormatError&) {}
      try {
        receipt_summary(text);
      } catch (const FormatError&) {}
    }
  }
  ReceiptJson huge = json;
  huge["kernels"][0]["eager"] = 18446744073709551615u;
  huge["kernels"].push_back(huge["kernels"][0]);
  EXPECT_THAT([&] { check_receipt(with_hash(huge).dump()); },
              ThrowsMessage<FormatError>(HasSubstr("the counts are too large")));
}

TEST(ReceiptFiles, AFolderIsItsFilesByName) {
  if (!makes_receipts()) GTEST_SKIP() << "this build has no libcrypto";
  const TemporaryFolder folder;
  io::write_file(folder / "b", "2");
  io::write_file(folder / "a", "");
  fs::create_directory(folder / "deeper");
  const std::vector<ReceiptFile> files = hash_files("model", folder.path());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_TRUE(files[0].path.string().ends_with("a"));
  EXPECT_EQ(files[0].bytes, 0u);
  EXPECT_EQ(files[1].bytes, 1u);
  EXPECT_THAT([&] { hash_files("model", folder / "deeper"); }, ThrowsMessage<FormatError>(HasSubstr("has no files")));
  EXPECT_THAT([&] { hash_files("model", folder / "none"); }, ThrowsMessage<FormatError>(HasSubstr("cannot be read")));
}

TEST_F(ReceiptOfARun, TheReceiptsInTheDocsAreAsTheyWereWritten) {
  int receipts = 0;
  for (const auto& entry : fs::directory_iterator(ETNA_SOURCE_DIR "/docs/examples")) {
    if (entry.path().extension() != ".json") continue;
    ++receipts;
    // Their files are elsewhere.
    for (const std::string& mismatch : check_receipt(read_bytes(entry.path())).mismatches)
      EXPECT_TRUE(mismatch.starts_with("model ") || mismatch.starts_with("tokenizer ")) << mismatch;
  }
  EXPECT_GE(receipts, 2);
}

TEST_F(ReceiptOfARun, InvalidUtf8IsReplaced) {
  Receipt made({.name = "test", .version = "1", .command = {"\xff"}});
  exp(ones({4}));
  EXPECT_THAT(check_receipt(made.text()).mismatches, IsEmpty());
}

}  // namespace
}  // namespace etna::training
