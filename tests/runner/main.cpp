#include <gmock/gmock.h>

#include <runner/run_tests.h>

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  return etna::run_all_tests();
}
