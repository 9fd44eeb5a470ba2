#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etna_model.h"
#include "running_program.h"

namespace etna {
namespace {

using testing::HasSubstr;

/// An answer without an end ends by Ctrl-C only; the next question is answered.
TEST_F(EtnaModel, CtrlCEndsAnAnswerAndNotTheChat) {
  data::VocabularyFields fields = some_fields();
  fields.eos.reset();
  fields.types[2] = 1;
  const data::ModelTokenizer tokenizer(fields);
  ASSERT_THAT(tokenizer.end_tokens(), testing::IsEmpty());
  models::DecoderConfig config = models::small_config("llama");
  config.vocabulary = static_cast<std::int64_t>(tokenizer.size());
  config.context = 200'000;
  models::save_gguf_model(model(), *models::small_model(config), &tokenizer);
  Running chat(with_model("chat") +
               "--temperature 1 --top-k 0 --seed 3 --max-tokens 1000000 --format chatml "
               "2>/dev/null");
  for (const char* question : {"the river\n", "a b c\n"}) {
    chat.write(question);
    ASSERT_TRUE(chat.wait_for(200)) << "no answer came: " << chat.output();
    chat.interrupt();
    chat.write("/metrics\n");
    ASSERT_TRUE(chat.wait_for(0, "cache: ")) << "the answer went on: " << chat.output().size();
  }
  EXPECT_THAT(chat.output(), HasSubstr("\nread "));
  chat.write("/exit\n");
  EXPECT_EQ(chat.end(), 0);
}

TEST_F(EtnaModel, OnATerminalCtrlCDropsALineAndTheChatGoesOn) {
  OnTerminal chat(with_model("chat") + "--temperature 0 --max-tokens 3 --format chatml");
  ASSERT_TRUE(chat.shows("> "));
  chat.type("half a line\x03");
  ASSERT_TRUE(chat.shows("/exit ends"));
  ASSERT_TRUE(chat.shows("> "));
  chat.type("/metrics\n");
  ASSERT_TRUE(chat.shows("cache: "));
  ASSERT_TRUE(chat.shows("> "));
  chat.type("\x04");
  EXPECT_EQ(chat.exit_code(), 0);
}

TEST_F(EtnaModel, OnATerminalLinesAreEditedAndCalledBack) {
  if (run_program("/bin/sh", "-c 'ldd " ETNA_PROGRAM " | grep libedit'").output.empty())
    GTEST_SKIP() << "this build is without libedit";
  OnTerminal chat(with_model("chat") + "--format chatml");
  ASSERT_TRUE(chat.shows("> "));
  chat.type("/ab\x1b[D\x1b[Dx\n");  // two steps to the left
  ASSERT_TRUE(chat.shows("unknown command /xab"));
  chat.type("\x1b[A\n");
  ASSERT_TRUE(chat.shows("unknown command /xab")) << "the last line again";
  chat.type("/exit\n");
  EXPECT_EQ(chat.exit_code(), 0);
}

}  // namespace
}  // namespace etna
