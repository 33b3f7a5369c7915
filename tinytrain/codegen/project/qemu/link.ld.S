/* Memory of a microcontroller: RAM_KB of RAM, of which STACK_KB for the stack, and FLASH_KB of flash. What does
 * not fit is an error of the linker. The stack lies lowest, and nothing below RAM can be written. The images of the
 * example, which a camera would bring, lie apart. */
MEMORY
{
    FLASH (rx) : ORIGIN = FLASH_AT, LENGTH = FLASH_KB * 1024
    IMAGES (r) : ORIGIN = IMAGES_AT, LENGTH = 16M
    RAM (rw) : ORIGIN = RAM_AT, LENGTH = RAM_KB * 1024
#ifdef FIRST_AT
    FIRST (rx) : ORIGIN = FIRST_AT, LENGTH = 64
#endif
}
#ifndef FIRST_AT
REGION_ALIAS("FIRST", FLASH)
#endif

SECTIONS
{
    .images : { *(.rodata.tt_example_support*) *(.rodata.tt_example_query) } > IMAGES
    .first : { KEEP(*(.first)) } > FIRST
    .text : { *(.text*) *(.rodata* .srodata*) . = ALIGN(4); } > FLASH
    .ARM.exidx : { *(.ARM.exidx*) } > FLASH
    .stack (NOLOAD) :
    {
        ram_start = .;
        stack_bottom = .;
        . += STACK_KB * 1024;
        stack_top = .;
    } > RAM
    .data : { data_start = .; *(.data* .sdata*) . = ALIGN(4); data_end = .; } > RAM AT > FLASH
    data_load = LOADADDR(.data);
    .bss (NOLOAD) : { bss_start = .; *(.bss* .sbss*) *(COMMON) . = ALIGN(4); bss_end = .; } > RAM
}
