#include <etna/data/csv.h>

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/data/text_file.h>
#include <etna/tensor/tensor.h>

#include "data/temporary_folder.h"

namespace etna::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Csv, ColumnsAreReadByName) {
  const Csv table("x,y,kind\n1,2.5,cat\n-3, 4e1 ,dog\n+5,inf,cat\n");
  EXPECT_THAT(table.columns(), ElementsAre("x", "y", "kind"));
  EXPECT_EQ(table.rows(), 3);
  EXPECT_EQ(table.tensor("x", i64).to_vector<int>(), std::vector<int>({1, -3, 5}));
  EXPECT_EQ(table.tensor({"y", "x"}).to_vector<float>(), std::vector<float>({2.5f, 1, 40, -3, INFINITY, 5}));
  EXPECT_EQ(table.tensor({"y", "x"}).shape(), Shape({3, 2}));
  EXPECT_EQ(table.classes("kind").to_vector<int>(), std::vector<int>({0, 1, 0}));
  EXPECT_EQ(table.classes("kind", {"dog", "cat"}).to_vector<int>(), std::vector<int>({1, 0, 1}));
  EXPECT_THAT(table.strings("kind"), ElementsAre("cat", "dog", "cat"));
  EXPECT_THAT([&] { table.tensor("z"); }, ThrowsMessage<FormatError>(HasSubstr("the columns are x, y, kind")));
  EXPECT_THAT([&] { table.tensor("kind"); },
              ThrowsMessage<FormatError>(HasSubstr("line 2, column 'kind': 'cat' is no")));
  EXPECT_THAT([&] { table.tensor("y", i64); }, ThrowsMessage<FormatError>(HasSubstr("line 2, column 'y': '2.5'")));
  EXPECT_THROW(table.classes("kind", {"cat"}), FormatError);
  EXPECT_THROW(table.tensor("x", f16), DtypeError);
  EXPECT_THROW(table.field(3, 0), IndexError);
}

TEST(Csv, QuotesLineEndsAndBlankLines) {
  const Csv table("\xEF\xBB\xBF\"a\",b\r\n\"x, \"\"y\"\"\",\"two\nlines\"\r\n\r\n,\"\"\r\nlast,1");
  EXPECT_THAT(table.columns(), ElementsAre("a", "b"));
  EXPECT_THAT(table.strings("a"), ElementsAre("x, \"y\"", "", "last"));
  EXPECT_THAT(table.strings("b"), ElementsAre("two\nlines", "", "1"));
  EXPECT_THAT([&] { table.tensor("b"); }, ThrowsMessage<FormatError>(HasSubstr("line 2")));
  const Csv plain("1;2\n3;4\n", {.delimiter = ';', .header = false});
  EXPECT_THAT(plain.columns(), ElementsAre("0", "1"));
  EXPECT_EQ(plain.tensor(i32).to_vector<int>(), std::vector<int>({1, 2, 3, 4}));
  EXPECT_EQ(Csv("").rows(), 0);
  EXPECT_EQ(Csv("a,b\n").tensor().shape(), Shape({0, 2}));
  EXPECT_EQ(Csv("a,b\n1,").rows(), 1);
}

TEST(Csv, EmptyFieldsNeedANumber) {
  const Csv table("a,b\n1,\n,2\n", {.missing = NAN});
  EXPECT_TRUE(std::isnan(table.tensor("b").to_vector<float>()[0]));
  EXPECT_THAT([&] { table.tensor("b", i64); }, ThrowsMessage<FormatError>(HasSubstr("does not fit this dtype")));
  EXPECT_EQ(Csv("a\n1\n\"\"\n", {.missing = -1}).tensor("a", i64).to_vector<int>(), std::vector<int>({1, -1}));
  EXPECT_EQ(Csv("a\n\"\"\n", {.missing = 255}).tensor("a", u8).item<int>(), 255);
  EXPECT_THROW(Csv("a\n\"\"\n", {.missing = 256}).tensor("a", u8), FormatError);
  EXPECT_THROW(Csv("a\n\"\"\n", {.missing = 0x1p63}).tensor("a", i64), FormatError);
  EXPECT_THAT([] { Csv("a,b\n1,\n").tensor("b"); }, ThrowsMessage<FormatError>(HasSubstr("CsvOptions::missing")));
}

TEST(Csv, FaultsNameTheirLine) {
  const auto expect = [](const char* text, const char* what) {
    EXPECT_THAT([&] { Csv(text, {}, "t.csv"); }, ThrowsMessage<FormatError>(HasSubstr(what))) << text;
  };
  expect("a,b\n1,2\n3\n", "t.csv: line 3: 1 fields where the first line has 2");
  expect("a,b\n\"1\n2\",3\n4,5,6\n", "line 4: 3 fields");
  expect("a\n\"x\n", "line 2: an unterminated quote");
  expect("a\n\"x\"y\n", "line 2: text after a closing quote");
  expect("a\nx\"y\n", "line 2: a quote within a field");
  expect("a,a\n", "two columns have the name 'a'");
  EXPECT_THROW(Csv("", {.delimiter = '"'}), Error);
  const TemporaryFolder folder;
  EXPECT_THAT([&] { read_csv(folder / "none.csv"); }, ThrowsMessage<FormatError>(HasSubstr("there is no such file")));
  EXPECT_EQ(read_csv(folder.write("x.csv", "a\n1\n")).rows(), 1);
}

TEST(Csv, SurvivesDamage) {
  const std::string whole = "a,\"b\"\r\n1,\"x\"\"\ny\"\n,3\n\n";
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string text = whole;
    for (int n = 0; n < 3; ++n) text[random() % text.size()] = "\",\r\n1a"[random() % 6];
    try {
      Csv(std::string_view(text).substr(0, random() % (text.size() + 1))).tensor();
    } catch (const FormatError&) {}
  }
}

TEST(TextFile, LinesEndInLfOrCrlf) {
  const TemporaryFolder folder;
  EXPECT_THAT(read_lines(folder.write("t", "a\r\n\nb\rc\nd")), ElementsAre("a", "", "b\rc", "d"));
  EXPECT_THAT(read_lines(folder.write("t", "a\n")), ElementsAre("a"));
  EXPECT_TRUE(read_lines(folder.write("t", "")).empty());
}

}  // namespace
}  // namespace etna::data
