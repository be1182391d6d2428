/* gemm_form.c - packed forms of weights, kept with the weight: a list, since forward and gradient want different ones.
 *
 * A form gets memory when a version of the weight is asked for again, as in evaluation; training that uses each version
 * once keeps nothing. When the weight changes, that memory stays and is refilled, so that training steps allocate
 * nothing. One lock guards all lists: it is held for a look-up, or while one form is packed. */
#include "base/memory.h"
#include "device/cpu/gemm.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void ls_gemm_form_lock(void)
{
    pthread_mutex_lock(&lock);
}

void ls_gemm_form_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static void release(void *forms)
{
    for (ls_gemm_form *form = forms, *next; form; form = next) {
        next = form->next;
        if (form->panels) ls_sys_unmap(form->panels, form->bytes);
        ls_sys_free(form);
    }
}

ls_gemm_form *ls_gemm_form_find(ls_derived *derived, const ls_gemm_key *key)
{
    for (ls_gemm_form *form = derived->form; form; form = form->next)
        if (memcmp(&form->key, key, sizeof *key) == 0) return form;

    ls_gemm_form *form = ls_sys_alloc(sizeof *form);
    if (!form) return NULL;
    form->key = *key;
    form->version = derived->version - 1; /* any version but the current one */
    form->next = derived->form;
    derived->form = form;
    derived->release = release;
    return form;
}

bool ls_gemm_form_keep(ls_gemm_form *form, size_t bytes)
{
    if (form->panels) return true;
    form->panels = ls_sys_map(bytes);
    form->bytes = bytes;
    return form->panels != NULL;
}
