#include <etna/train/settings.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <etna/optim/schedule.h>

#include "train_report/variable.h"

namespace etna::training {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Mine {
  double lr = 1e-3;
  std::int64_t batch = 16, steps = 0, epochs = 0;
  std::string kind = "plain";
  SettingList list;

  Mine() {
    list.real("lr", lr, 0, 1, "peak learning rate");
    list.integer("batch", batch, 1, 100, "sequences a batch");
    list.integer("steps", steps, 0, 1000, "");
    list.integer("epochs", epochs, 0, 1000, "");
    list.choice("kind", kind, {"plain", "other"}, "");
    list.together({"steps", "epochs"});
  }
};

TEST(SettingList, TheFirstSourceWins) {
  Mine mine;
  mine.list.set("lr", "0.5", "--lr");
  const Variable lr("ETNA_TEST_LR", "0.25"), batch("ETNA_TEST_BATCH", "8");
  mine.list.read_environment("ETNA_TEST_");
  mine.list.read("batch = 4\nkind = \"other\"  # a comment\n\n# lr = 7\n", "my.toml");
  EXPECT_EQ(mine.lr, 0.5);
  EXPECT_EQ(mine.batch, 8);
  EXPECT_EQ(mine.kind, "other");
  EXPECT_THAT(mine.list.toml(), AllOf(HasSubstr("lr = 0.5                      # --lr\n"),
                                      HasSubstr("batch = 8                     # ETNA_TEST_BATCH\n"),
                                      HasSubstr("kind = \"other\"                # my.toml\n"),
                                      HasSubstr("steps = 0                     # default\n")));
}

TEST(SettingList, ItsTomlIsAFileOfSettings) {
  Mine mine, again;
  mine.list.read("lr = 3e-4\r\nkind='other'\nsteps = 7", "a file");
  again.list.read(mine.list.toml(), "printed");
  EXPECT_EQ(again.list.json(), mine.list.json());
  EXPECT_EQ(mine.list.json(), R"({"batch":16,"epochs":0,"kind":"other","lr":0.0003,"steps":7})");
}

TEST(SettingList, WhoGivesOneOfSettingsThatGoTogetherGivesAll) {
  Mine mine;
  mine.list.set("steps", "5", "--steps");
  mine.list.read("epochs = 3\nlr = 0.5", "a preset");
  EXPECT_EQ(mine.epochs, 0);
  EXPECT_EQ(mine.lr, 0.5);
}

TEST(SettingList, RefusesWhatIsNoSetting) {
  Mine mine;
  const auto refuses = [&](const char* toml, const char* why) {
    EXPECT_THAT([&] { mine.list.read(toml, "my.toml"); }, ThrowsMessage<SettingError>(HasSubstr(why))) << toml;
  };
  refuses("layer = 3", "my.toml: 'layer' is no setting; there are lr, batch, steps, epochs, kind");
  refuses("batch = 0", "my.toml: batch is '0'; it should be an integer from 1 to 100");
  refuses("batch = 1.5", "batch is '1.5'");
  refuses("lr = nan", "lr is 'nan'; it should be a number from 0 to 1");
  refuses("kind = \"third\"", "kind is 'third'; it should be one of plain, other");
  for (const char* toml : {"lr = [1, 2]", "[section]", "lr", "lr = 1 2", "kind = \"plain"})
    refuses(toml, "should be a name and one value, as in `lr = 1e-3`");
  EXPECT_EQ(mine.batch, 16);
}

TEST(SettingList, AResumedRunKeepsItsSettings) {
  const char* saved = "lr = 0.5\nbatch = 4\nsteps = 10\n";
  Mine kept, longer, other;
  kept.list.set("batch", "4", "--batch");
  kept.list.resume(saved, {}, "runs/first");
  EXPECT_EQ(kept.lr, 0.5);
  longer.list.set("steps", "20", "--steps");
  longer.list.resume(saved, {"steps", "epochs"}, "runs/first");
  EXPECT_EQ(longer.steps, 20);
  other.list.set("batch", "8", "--batch");
  EXPECT_THAT([&] { other.list.resume(saved, {"steps"}, "runs/first"); },
              ThrowsMessage<SettingError>("batch is another one in runs/first; a resumed run keeps it"));
}

TEST(Recipe, IsSettingsAndTheirSchedule) {
  Recipe recipe;
  SettingList list;
  recipe.add_to(list);
  list.read("schedule = \"linear\"\nwarmup = 0\nlr_floor = 0.5\nepochs = 2", "a preset");
  EXPECT_EQ(recipe.planned_steps(50), 100);
  EXPECT_EQ(recipe.course(100)(0), 1);
  EXPECT_DOUBLE_EQ(recipe.course(100)(50), 0.75);
  EXPECT_EQ(recipe.course(100)(1000), 0.5);
}

}  // namespace
}  // namespace etna::training
