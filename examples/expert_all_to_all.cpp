// SPDX-License-Identifier: Apache-2.0
// A mixture of experts: tokens go to the ranks of their experts on "ep", and return to their order.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

#include <rankmesh/engine/run.hpp>

struct Token {
    int index, expert, value;
};

int program(rankmesh::World& world) {
    auto ep = world.join({{"ep", rankmesh::rest}}).on("ep");

    auto tokens = std::vector<Token>();  // unevenly many for each expert
    for (int i = 0; i < 50 + ep.rank(); ++i) tokens.push_back({i, i * i % ep.size(), i});
    std::ranges::sort(tokens, {}, &Token::expert);

    auto sent = std::vector<std::size_t>(static_cast<std::size_t>(ep.size())), received = sent;
    for (const auto& token : tokens) ++sent[static_cast<std::size_t>(token.expert)];
    ep.all_to_all(sent, received);
    auto routed = std::vector<Token>(std::reduce(received.begin(), received.end()));
    ep.all_to_all_v(tokens, sent, routed, received);

    for (auto& token : routed) token.value += 1000 * ep.rank();  // the expert's work

    ep.all_to_all_v(routed, received, tokens, sent);
    std::ranges::sort(tokens, {}, &Token::index);
    auto right = true;
    for (int i = 0; const auto& token : tokens) {
        right = right && token.index == i && token.value == i + 1000 * (i * i % ep.size());
        ++i;
    }
    if (!right || ep.rank() == 0)
        std::puts(right ? "every token came back from its expert" : "a token is wrong");
    return right ? 0 : 1;
}

int main(int argc, char** argv) { return rankmesh::run(argc, argv, program, {.threads = 4}); }
