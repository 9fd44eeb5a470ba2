// A server of a model that says what a script says, for tests in other languages:
//     serve_script TEMPLATE PIECE...
// Prints its port, and ends when its standard input does.
#include <cstdio>
#include <string>
#include <vector>

#include <etna/serve/http_server.h>
#include <etna/serve/service.h>

#include "serve/script_model.h"

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: serve_script TEMPLATE PIECE...\n");
    return 2;
  }
  using namespace etna::serve;
  const ScriptModel model(std::vector<std::string>(argv + 2, argv + argc), argv[1]);
  Engine engine({model.served});
  Service service(engine);
  HttpOptions options;
  options.port = 0;
  options.log = false;
  HttpServer server(service, options);
  std::printf("%d\n", server.start());
  std::fflush(stdout);
  while (std::getchar() != EOF) {}
  server.stop();
}
