#include <etna/serve/chat_page.h>

#include <fmt/format.h>

#include <etna/serve/endpoints.h>
#include <etna/serve/service.h>

// GET /: a page to chat with the models.
namespace etna::serve {

HttpReply answer_page(Service&, const HttpRequest&) {
  const std::string nonce = new_id("");
  std::string page = kChatPage;
  const std::string mark = "{{nonce}}";
  for (std::size_t at = 0; (at = page.find(mark, at)) != std::string::npos;) page.replace(at, mark.size(), nonce);
  // The page shows what models wrote, so it may run nothing but its own script, and ask nobody but this server.
  const std::string policy = fmt::format(
      "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; connect-src 'self'; img-src data:; "
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      nonce);
  return {.body = std::move(page),
          .type = "text/html; charset=utf-8",
          .headers = {{"Content-Security-Policy", policy},
                      {"Cache-Control", "no-store"},
                      {"Referrer-Policy", "no-referrer"},
                      {"X-Content-Type-Options", "nosniff"}}};
}

}  // namespace etna::serve
