#include <etna/autograd/autograd.h>

// Wrong on purpose: the guard has no name, so it ends at once. The compiler has to say so.
int main() { etna::NoGrad(); }
