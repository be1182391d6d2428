/* accuracy.h - how many pictures a network recognises: what the examples about pictures share. */
#ifndef EXAMPLES_ACCURACY_H
#define EXAMPLES_ACCURACY_H

#include <lockstep.h>

/* Of all pictures of a loader, in percent. `prepare` makes the network's input of them; NULL: they are that. */
static double accuracy(ls_run *run, ls_module *net, ls_loader *test, ls_tensor *(*prepare)(ls_tensor *images))
{
    double right = 0, seen = 0;
    ls_eval(net);
    ls_no_grad(run)
    {
        for (ls_batch b; ls_next(test, &b);) {
            ls_tensor *guess = ls_argmax(ls_forward(net, prepare ? prepare(b.image) : b.image));
            ls_tensor *hit = ls_gather(run, ls_eq(guess, b.label));
            right += ls_item(ls_sum(hit));
            seen += (double)ls_numel(hit);
        }
    }
    ls_train(net);
    return seen > 0 ? 100 * right / seen : 0;
}

#endif
