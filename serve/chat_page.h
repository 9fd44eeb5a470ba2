#pragma once

namespace etna::serve {

/// chat_page.html. In it, {{nonce}} stands for a random text that the page's policy names.
extern const char* const kChatPage;

}  // namespace etna::serve
